# Objects, strings, hashes, threads, garbage collection and compaction, fibers.
require 'digest'
require 'json'
require 'set'

Point = Struct.new(:x, :y)
state = 7
draw = ->(limit) { state = (state * 1103515245 + 12345) & 0x7fffffff; (state >> 16) % limit }

table = Hash.new { |hash, key| hash[key] = [] }
60_000.times { |i| table["key#{draw.(5000)}"] << Point.new(i, 'z' * draw.(80)) }
puts table.keys.size, table.values.sum(&:size)
text = JSON.generate(table.transform_values { |points| points.map { |p| [p.x, p.y] } })
puts text.size, Digest::SHA256.hexdigest(text)
back = JSON.parse(text)
puts back.keys == table.keys

sums = 4.times.map do |n|
  Thread.new { (1..20_000).reduce(0) { |sum, i| sum + "#{n}#{i}".reverse.to_i % 97 } }
end.map(&:value)
p sums
GC.start
GC.compact if GC.respond_to?(:compact)
fibers = 500.times.map { |i| Fiber.new { Fiber.yield 'f' * i; i } }
puts fibers.sum { |fiber| fiber.resume.size }, fibers.sum(&:resume)
puts Set.new(back.values.flatten(1).map(&:last)).size
