/* Several numbers as one value: `lanes` are 16 in single precision, `doubles` are 8 in double precision. Operations act
 * on each number by itself.
 *
 * Compilers keep such values in registers, which they do not with loops over arrays. Every form gives the same bits: an
 * operation on a number is one rounded operation of IEEE 754, whatever the width of a vector. */
#ifndef DEBIAS_LANES_H
#define DEBIAS_LANES_H

#if defined(__GNUC__) || defined(__clang__)
#ifdef __AVX__
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
typedef float vector_float __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef double vector_double __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
#define SPREAD(x, vector) ((x) - (vector){0}) /* x - 0 is x, also for -0 */
#define PREFETCH(address) __builtin_prefetch(address, 1)
#else
typedef float vector_float;
typedef double vector_double;
#define SPREAD(x, vector) (x)
#define PREFETCH(address) ((void)(address))
#endif

#define EACH for (int k = 0; k < (int)(sizeof a.v / sizeof a.v[0]); k++)
#define NUMBERS(vector, number) ((int)(sizeof(vector) / sizeof(number)))

/* Define the type `name` of n numbers, and its operations, whose names end in `end`. */
#define DEFINE(name, number, vector, n, end)                                   \
    typedef struct {                                                           \
        vector v[(n) * sizeof(number) / sizeof(vector)];                       \
    } name;                                                                    \
    static inline name load##end(const number *from) {                         \
        name a;                                                                \
        EACH a.v[k] = *(const vector *)(from + k * NUMBERS(vector, number));   \
        return a;                                                              \
    }                                                                          \
    static inline void store##end(number *to, name a) {                        \
        EACH *(vector *)(to + k * NUMBERS(vector, number)) = a.v[k];           \
    }                                                                          \
    static inline name spread##end(number x) {                                 \
        name a;                                                                \
        EACH a.v[k] = SPREAD(x, vector);                                       \
        return a;                                                              \
    }                                                                          \
    static inline name add##end(name a, name b) {                              \
        EACH a.v[k] += b.v[k];                                                 \
        return a;                                                              \
    }                                                                          \
    static inline name subtract##end(name a, name b) {                         \
        EACH a.v[k] -= b.v[k];                                                 \
        return a;                                                              \
    }                                                                          \
    static inline name multiply##end(name a, name b) {                         \
        EACH a.v[k] *= b.v[k];                                                 \
        return a;                                                              \
    }

DEFINE(lanes, float, vector_float, 16, )
DEFINE(doubles, double, vector_double, 8, _doubles)

static inline void prefetch(const float *address, int n) {
    for (int k = 0; k < n; k += 16) PREFETCH(address + k);
}

#endif
