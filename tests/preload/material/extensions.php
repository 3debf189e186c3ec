<?php
// Works with what is loaded: PHP opens its extensions with RTLD_DEEPBIND.
$words = [];
for ($i = 0; $i < 20000; $i++) $words["key $i"] = str_repeat("é$i", $i % 50);
echo md5(json_encode($words)), " ", count(unserialize(serialize($words))), "\n";
foreach (get_loaded_extensions() as $name) echo $name, " ", count(get_extension_funcs($name) ?: []), "\n";
if (extension_loaded("dom")) {
  $document = new DOMDocument();
  $document->loadXML("<list>" . str_repeat("<item>text</item>", 2000) . "</list>");
  echo $document->getElementsByTagName("item")->length, " ", md5($document->saveXML()), "\n";
}
if (extension_loaded("sqlite3")) {
  $base = new SQLite3(":memory:");
  $base->exec("create table numbers (number integer)");
  for ($i = 0; $i < 2000; $i++) $base->exec("insert into numbers values ($i)");
  echo $base->querySingle("select sum(number) from numbers"), "\n";
}
if (extension_loaded("gd")) {
  $image = imagecreatetruecolor(400, 300);
  for ($i = 0; $i < 400; $i += 7) imageline($image, $i, 0, 400 - $i, 299, $i * 1000);
  ob_start();
  imagebmp($image);
  echo md5(ob_get_clean()), "\n";
}
if (extension_loaded("zlib")) echo strlen(gzuncompress(gzcompress(serialize($words)))), "\n";
if (extension_loaded("gmp")) echo gmp_strval(gmp_pow(3, 2000)), "\n";
if (extension_loaded("intl")) echo (new NumberFormatter("de_DE", NumberFormatter::SPELLOUT))->format(1234567), "\n";
