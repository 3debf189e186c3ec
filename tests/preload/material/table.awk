# Associative arrays, string building, number formatting.
{ count[$1 % 997] += $1; text[$1 % 97] = text[$1 % 97] $1; }
END {
  for (i = 0; i < 997; i += 50) printf "%d %d\n", i, count[i];
  for (i = 0; i < 97; i += 10) { n += length(text[i]); gsub(/7/, "seven", text[i]); m += length(text[i]); }
  print n, m, split(text[3], parts, /5/), length(parts[1]);
}
