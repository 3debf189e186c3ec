# Strings, hashes, regular expressions, sorting, closures, a child process.
use strict;
use warnings;

my $state = 7;
sub draw { $state = ($state * 1103515245 + 12345) % 2147483648; return int($state / 65536) % $_[0]; }

my (%count, @lines);
for my $line (1 .. 8000) {
  my $text = join(' ', map { 'w' . draw(4000) . ('y' x draw(60)) } 1 .. 10);
  push @lines, $text;
  $count{$_}++ for split / /, $text;
}
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
printf "%s %d\n", $_, $count{$_} for @sorted[0 .. 9];
my $joined = join("\n", @lines);
my $changed = ($joined =~ s/w(\d+)(y+)/$2$1/g);
print "$changed changes, length ", length($joined), "\n";
my @closures = map { my $n = $_; sub { $n += shift } } 1 .. 20000;
my $sum = 0;
$sum += $_->(3) for @closures;
print "sum $sum\n";
my $child = open(my $pipe, '-|') // die;
if (!$child) { print "child: ", scalar(keys %count), "\n"; exit 0; }
print <$pipe>;
close $pipe;
print "done\n";
