# The demo's workload where Python lacks its library: tables of words are built, counted, sorted and dropped.
# Deterministic; the last line says which malloc this process has mapped.
use strict;
use warnings;

my $state = 1;
sub draw { $state = ($state * 1103515245 + 12345) % 2147483648; return int($state / 65536) % $_[0]; }

my ($words, $checksum) = (0, 0);
for my $round (1 .. 6) {
  my (%count, %index);
  for my $line (1 .. 12000) {
    my $text = join(' ', map { 'w' . draw(5000) . ('x' x draw(40)) } 1 .. 12);
    for my $word (split / /, $text) {
      $count{$word}++;
      push @{$index{substr($word, 0, 3)}}, $word;
      $words++;
    }
  }
  my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
  $checksum = ($checksum * 31 + length(join(',', @sorted[0 .. 999])) + scalar(keys %index)) % 1000000007;
}
print "$words words, checksum $checksum\n";

my $malloc = 'unknown';
if (open(my $maps, '<', '/proc/self/maps')) {
  my @files = map { m{(/\S*/(libhakmem[^/\s]*|libc[.-]\S*))$} ? $1 : () } <$maps>;
  my @preloaded = grep { m{libhakmem} } @files;
  $malloc = @preloaded ? $preloaded[0] : $files[0] if @files;
}
print "malloc: $malloc\n";
