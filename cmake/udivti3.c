/* __udivti3: the division of 128-bit numbers, which compilers call. For builds without a compiler's runtime library
 * (cmake/zig.cmake). Bit by bit: the libraries divide so in reports and once in a while, never in a fast path. */
typedef unsigned __int128 wide;

wide __udivti3(wide dividend, wide divisor);

wide __udivti3(wide dividend, wide divisor) {
  wide quotient = 0, rest = 0;
  for (int bit = 127; bit >= 0; bit--) {
    const int carry = (int)(rest >> 127);
    rest = rest << 1 | (dividend >> bit & 1);
    quotient <<= 1;
    if (carry || rest >= divisor) {
      rest -= divisor;
      quotient |= 1;
    }
  }
  return quotient;
}
