# A program for `hakmem bench`: ruby builds, groups, sorts and drops strings, arrays and hashes.
# Prints one line that depends on nothing but the work.

state = 1
draw = lambda { |limit| state = (state * 6364136223846793005 + 1442695040888963407) & 0xffffffffffffffff; (state >> 33) % limit }

checksum = 0
2.times do |round|
  words = Array.new(60_000) { "w#{draw.call(9000)}#{'x' * draw.call(60)}" }
  count = Hash.new(0)
  words.each { |word| count[word] += 1 }
  groups = words.group_by { |word| word[0, 3] }
  top = count.sort_by { |word, times| [-times, word] }.first(500)
  text = words.each_slice(12).map { |line| line.join(' ') }.join("\n")
  changed = text.gsub(/w(\d+)/) { "<#{$1.to_i + round}>" }.lines.map(&:chomp).reject(&:empty?)
  checksum = (checksum * 31 + top.sum { |word, times| word.size * times } + groups.size + changed.sum(&:size)) % 1_000_000_007
end
puts "checksum #{checksum}"
