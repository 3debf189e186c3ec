// Buffers outside the JavaScript heap, JSON, compression, worker threads.
const crypto = require('crypto');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

function fill(seed, count) {
  const items = [];
  let state = seed;
  for (let i = 0; i < count; ++i) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    items.push({ id: i, name: 'n' + (state % 5000), bytes: Buffer.alloc(state % 3000, i & 255).toString('base64').slice(0, 40) });
  }
  return items;
}

function digest(seed) {
  const text = JSON.stringify(fill(seed, 6000));
  const packed = zlib.gzipSync(Buffer.from(text), { level: 6 });
  const unpacked = zlib.gunzipSync(packed).toString();
  return crypto.createHash('sha256').update(unpacked).digest('hex') + (unpacked === text);
}

if (isMainThread) {
  const buffers = [];
  for (let i = 0; i < 300; ++i) buffers.push(Buffer.allocUnsafeSlow(100000).fill(i & 255));
  console.log(buffers.reduce((sum, buffer) => sum + buffer[99999], 0), digest(1));
  const workers = [2, 3].map((seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.on('message', resolve);
    worker.on('error', reject);
  }));
  Promise.all(workers).then((results) => results.forEach((result) => console.log(result)));
} else {
  parentPort.postMessage(digest(workerData));
}
