// TFSMITH_CLONES before a function: it is compiled for several generations of CPUs, and the loader picks one.
#ifndef TFSMITH_BERT_CLONES_H_
#define TFSMITH_BERT_CLONES_H_

// Sanitizers do without: their runtime is not ready yet when the loader picks.
#if !defined(__x86_64__) || !defined(__linux__) || !defined(__GNUC__) || defined(__clang__) || defined(TFSMITH_NO_CLONES)
#define TFSMITH_CLONES
#elif __GNUC__ >= 12
#define TFSMITH_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TFSMITH_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

#define TFSMITH_INLINE inline __attribute__((always_inline))

#endif  // TFSMITH_BERT_CLONES_H_
