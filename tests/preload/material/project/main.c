#include <stdio.h>
#include "lib/answer.h"

int main(void) { return printf("%d\n", answer()) < 0; }
