/* A port of the vectors to C: what more/docs/port.md says of the JSON file, as plain numbers.

   Read from standard input: 'c' or 'r' for columns or pairs, the number of rows, of axes of the
   positions, of columns of the output, and of entries of the table; the positions; then
   c: axis, band (nan for the coordinate itself) and phase of each column;
   r: the scale, the query x, and columns a and b, axis and band of each pair.
   Written: the output, row by row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double number(void) {
  double value;
  if (scanf("%lf", &value) != 1) exit(1);
  return value;
}

static double *numbers(int count) {
  double *values = malloc(sizeof(double) * count);
  for (int i = 0; i < count; i++) values[i] = number();
  return values;
}

int main(void) {
  char kind;
  int rows, axes, width, count;
  if (scanf("%c %d %d %d %d", &kind, &rows, &axes, &width, &count) != 5) return 1;
  double *positions = numbers(rows * axes);
  double scale = kind == 'r' ? number() : 1;
  double *output = kind == 'r' ? numbers(rows * width) : calloc(rows * width, sizeof(double));
  double *table = numbers(count * (kind == 'r' ? 4 : 3));
  for (int row = 0; row < rows; row++) {
    double *at = positions + row * axes, *out = output + row * width;
    for (int i = 0; i < count && kind == 'c'; i++) {
      double coordinate = at[(int)table[3 * i]], band = table[3 * i + 1];
      out[i] = isnan(band) ? coordinate : sin(band * coordinate + table[3 * i + 2]);
    }
    for (int i = 0; i < count && kind == 'r'; i++) {
      double *pair = table + 4 * i, angle = pair[3] * at[(int)pair[2]];
      double *a = out + (int)pair[0], *b = out + (int)pair[1], first = *a;
      *a = (first * cos(angle) - *b * sin(angle)) * scale;
      *b = (first * sin(angle) + *b * cos(angle)) * scale;
    }
    for (int i = 0; i < width; i++) printf("%.17g ", out[i]);
    printf("\n");
  }
  return 0;
}
