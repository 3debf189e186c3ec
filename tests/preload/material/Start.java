// Starts a JVM with several kinds of native memory: threads, direct buffers, compression, compiled code.
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.*;
import java.util.zip.*;

public class Start {
    static long work(int seed) throws Exception {
        Random random = new Random(seed);
        long sum = 0;
        for (int i = 0; i < 200; ++i) {
            ByteBuffer direct = ByteBuffer.allocateDirect(1000 + random.nextInt(100000));
            byte[] bytes = new byte[20000];
            random.nextBytes(bytes);
            Deflater deflater = new Deflater();
            deflater.setInput(bytes);
            deflater.finish();
            byte[] packed = new byte[30000];
            sum += deflater.deflate(packed) + direct.capacity();
            deflater.end();
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        List<Long> sums = Collections.synchronizedList(new ArrayList<>(Collections.nCopies(4, 0L)));
        Thread[] threads = new Thread[4];
        for (int i = 0; i < 4; ++i) {
            int number = i;
            threads[i] = new Thread(() -> {
                try {
                    sums.set(number, work(number));
                } catch (Exception e) {
                    throw new RuntimeException(e);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println(sums);
        System.out.println(IntStream.range(0, 100000).boxed().collect(Collectors.groupingBy(i -> i % 97)).size());
    }
}
