/* The largest start[s, r] + change[s] - change[r] for all states t, u: see `largest_sums`.

start: (size, size) symmetric; cross: (size, states), change is cross[:, t] - cross[:, u];
largest: (states, states). A state t < states - 1 follows the states 0..t, the last follows all. */
#include <math.h>
#include <stdlib.h>

void largest_sums(long size, long states, const double *start, const double *cross,
                  double *largest)
{
    double *change = malloc(size * sizeof(double));
    for (long t = 0; t < states; t++) {
        long rows = t == states - 1 ? size : t + 1;
        for (long u = 0; u <= t; u++) {
            long count = u == states - 1 ? size : u + 1;
            double best = -INFINITY;
            for (long s = 0; s < rows; s++)
                change[s] = cross[s * states + t] - cross[s * states + u];
            for (long s = 0; s < rows; s++) {
                const double *row = start + s * size;
                double most = -INFINITY;
                for (long r = 0; r < count; r++) {
                    double sum = row[r] - change[r];
                    most = sum > most ? sum : most;
                }
                if (most + change[s] > best)
                    best = most + change[s];
            }
            largest[t * states + u] = largest[u * states + t] = best;
        }
    }
    free(change);
}
