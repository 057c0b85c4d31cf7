/* Sixteen permutations as one value: `lanes`, whose operations act on each lane by itself, in single precision.
 *
 * Compilers keep such values in registers, which they do not with loops over arrays. Every form gives the same bits: an
 * operation on a lane is one rounded operation of IEEE 754, whatever the width of a vector. */
#ifndef DEBIAS_LANES_H
#define DEBIAS_LANES_H

#define N_LANES 16

#if defined(__GNUC__) || defined(__clang__)
#ifdef __AVX__
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
typedef float vector __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
#define PREFETCH(address) __builtin_prefetch(address, 1)
#else
typedef float vector;
#define VECTOR_BYTES 4
#define PREFETCH(address) ((void)(address))
#endif

#define WIDTH (VECTOR_BYTES / 4)
#define N_VECTORS (N_LANES / WIDTH)
#define EACH for (int k = 0; k < N_VECTORS; k++)

typedef struct {
    vector v[N_VECTORS];
} lanes;

static inline lanes load(const float *from) {
    lanes to;
    EACH to.v[k] = *(const vector *)(from + k * WIDTH);
    return to;
}

static inline void store(float *to, lanes a) {
    EACH *(vector *)(to + k * WIDTH) = a.v[k];
}

static inline lanes spread(float x) {
    lanes to;
#if VECTOR_BYTES > 4
    EACH to.v[k] = x - (vector){0}; /* x - 0 is x, also for -0 */
#else
    EACH to.v[k] = x;
#endif
    return to;
}

static inline lanes add(lanes a, lanes b) {
    EACH a.v[k] += b.v[k];
    return a;
}

static inline lanes subtract(lanes a, lanes b) {
    EACH a.v[k] -= b.v[k];
    return a;
}

static inline lanes multiply(lanes a, lanes b) {
    EACH a.v[k] *= b.v[k];
    return a;
}

static inline void prefetch(const float *address, int n) {
    for (int k = 0; k < n; k += 16) PREFETCH(address + k);
}

#endif
