#include "amx.h"

#include <cpuid.h>
// GCC 12 warns of its own vectors that are undefined on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

#include <cstdlib>
#endif

namespace tfsmith::bert::amx {
namespace {

// AddressSanitizer does not see what tiles read and write.
void CheckMemory([[maybe_unused]] Precision precision, [[maybe_unused]] const Block& block) {
#if defined(__SANITIZE_ADDRESS__)
  const auto check = [](const char* from, int64_t bytes) {
    if (__asan_region_is_poisoned(const_cast<char*>(from), bytes) == nullptr) return;
    __asan_describe_address(const_cast<char*>(from));
    std::abort();
  };
  const int64_t tiles = block.steps * Parts(precision);
  for (int i = 0; i < 2; ++i) {
    if (block.rows[i] == 0) continue;
    // The last tile has only the rows that there are, except for digits, which are computed for all.
    const int64_t rows = precision == Precision::kSplit ? kTileRows : block.rows[i];
    check(block.source[i], (tiles - 1) * kTile + rows * kTileBytes);
    for (int64_t row = 0; row < block.rows[i]; ++row) {
      check(block.target + (i * kTileRows + row) * block.target_bytes, block.columns * kTileBytes);
    }
  }
  check(block.weights, ((tiles - 1) * ColumnTiles(precision) + block.columns) * kTile);  // of the last, those that are wanted
#endif
}

#define TFSMITH_TILES target("amx-tile,amx-bf16,amx-int8,avx512f")
#define TFSMITH_TILES_INLINE __attribute__((TFSMITH_TILES, always_inline)) inline

// What LDTILECFG reads: eight registers, of up to 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};

  TileConfig() {
    std::fill(bytes, bytes + 8, static_cast<uint16_t>(kTileBytes));
    std::fill(rows, rows + 8, static_cast<uint8_t>(kTileRows));
  }
};

// Not _tile_loadconfig: GCC 12 thinks that it reads 8 bytes, and does not write the rest of the configuration.
void Configure(const TileConfig& config) { asm volatile("ldtilecfg %0" : : "m"(config)); }

bool Find() {
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned kNeeded = 1u << 22 | 1u << 24 | 1u << 25;  // AMX-BF16, AMX-TILE, AMX-INT8
  if ((edx & kNeeded) != kNeeded) return false;
  // Linux gives a process the 8 KiB of tile registers when it asks for them.
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

TFSMITH_TILES_INLINE void FetchSoon(const Block& block, int64_t step) {
  const char* const soon = block.soon + step * block.soon_bytes;
  for (int64_t i = 0; i < block.soon_bytes; i += kTileBytes) _mm_prefetch(soon + i, _MM_HINT_T1);
}

// ---- bfloat16 and bytes: registers 0 to 3 are results, of two tiles of rows times two of columns, 4 and 5 sources, 6 and 7
// weights. A tile is loaded for two products.

template <bool kLower, bool kRight, bool kBytes>
TFSMITH_TILES_INLINE void MultiplyTiles() {
  if constexpr (kBytes) {
    _tile_dpbusd(0, 4, 6);
    if constexpr (kRight) _tile_dpbusd(1, 4, 7);
    if constexpr (kLower) _tile_dpbusd(2, 5, 6);
    if constexpr (kLower && kRight) _tile_dpbusd(3, 5, 7);
  } else {
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kRight) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kLower) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kLower && kRight) _tile_dpbf16ps(3, 5, 7);
  }
}

template <bool kLower, bool kRight>
TFSMITH_TILES_INLINE void LoadResults(const Block& block) {
  const char* const lower = block.target + kTileRows * block.target_bytes;
  _tile_loadd(0, block.target, block.target_bytes);
  if constexpr (kRight) _tile_loadd(1, block.target + kTileBytes, block.target_bytes);
  if constexpr (kLower) _tile_loadd(2, lower, block.target_bytes);
  if constexpr (kLower && kRight) _tile_loadd(3, lower + kTileBytes, block.target_bytes);
}

template <bool kLower, bool kRight>
TFSMITH_TILES_INLINE void StoreResults(const Block& block) {
  char* const lower = block.target + kTileRows * block.target_bytes;
  _tile_stored(0, block.target, block.target_bytes);
  if constexpr (kRight) _tile_stored(1, block.target + kTileBytes, block.target_bytes);
  if constexpr (kLower) _tile_stored(2, lower, block.target_bytes);
  if constexpr (kLower && kRight) _tile_stored(3, lower + kTileBytes, block.target_bytes);
}

template <bool kBytes, bool kLower, bool kRight>
__attribute__((TFSMITH_TILES)) void MultiplyPlain(const Block& block) {
  asm volatile("" : : : "memory");  // GCC does not know that loading a tile reads memory
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (block.adds) LoadResults<kLower, kRight>(block);
  for (int64_t step = 0; step < block.steps; ++step) {
    FetchSoon(block, step);
    _tile_loadd(4, block.source[0] + step * kTile, kTileBytes);
    if constexpr (kLower) _tile_loadd(5, block.source[1] + step * kTile, kTileBytes);
    _tile_loadd(6, block.weights + 2 * step * kTile, kTileBytes);
    if constexpr (kRight) _tile_loadd(7, block.weights + (2 * step + 1) * kTile, kTileBytes);
    MultiplyTiles<kLower, kRight, kBytes>();
  }
  StoreResults<kLower, kRight>(block);
}

template <bool kBytes>
void MultiplyPlain(const Block& block) {
  const bool lower = block.rows[1] > 0;
  const bool right = block.columns > 1;
  if (lower && right) return MultiplyPlain<kBytes, true, true>(block);
  if (lower) return MultiplyPlain<kBytes, true, false>(block);
  if (right) return MultiplyPlain<kBytes, false, true>(block);
  MultiplyPlain<kBytes, false, false>(block);
}

// ---- Three digits: registers 0 to 2 are the sums of each weight (65536, 256, 1) of the upper tile of rows, 3 to 5 of the
// lower; 6 is a source, 7 the weights. A sum is not used again before three others, which is how long a product takes.

template <bool kLower>
TFSMITH_TILES_INLINE void AddDigits(const Block& block, int64_t step) {
  const char* const upper = block.source[0] + step * 3 * kTile;
  const char* const lower = block.source[1] + step * 3 * kTile;
  const char* const weights = block.weights + step * 3 * kTile;
  _tile_loadd(7, weights, kTileBytes);
  _tile_loadd(6, upper, kTileBytes);
  _tile_dpbssd(0, 6, 7);  // 2 * 2
  if constexpr (kLower) {
    _tile_loadd(6, lower, kTileBytes);
    _tile_dpbssd(3, 6, 7);
  }
  _tile_loadd(6, upper + 2 * kTile, kTileBytes);
  _tile_dpbssd(2, 6, 7);  // 0 * 2
  if constexpr (kLower) {
    _tile_loadd(6, lower + 2 * kTile, kTileBytes);
    _tile_dpbssd(5, 6, 7);
  }
  _tile_loadd(6, upper + kTile, kTileBytes);
  _tile_dpbssd(1, 6, 7);  // 1 * 2
  if constexpr (kLower) {
    _tile_loadd(6, lower + kTile, kTileBytes);
    _tile_dpbssd(4, 6, 7);
  }
  _tile_loadd(7, weights + 2 * kTile, kTileBytes);
  _tile_loadd(6, upper, kTileBytes);
  _tile_dpbssd(2, 6, 7);  // 2 * 0
  if constexpr (kLower) {
    _tile_loadd(6, lower, kTileBytes);
    _tile_dpbssd(5, 6, 7);
  }
  _tile_loadd(7, weights + kTile, kTileBytes);
  _tile_loadd(6, upper, kTileBytes);
  _tile_dpbssd(1, 6, 7);  // 2 * 1
  if constexpr (kLower) {
    _tile_loadd(6, lower, kTileBytes);
    _tile_dpbssd(4, 6, 7);
  }
  _tile_loadd(6, upper + kTile, kTileBytes);
  _tile_dpbssd(2, 6, 7);  // 1 * 1
  if constexpr (kLower) {
    _tile_loadd(6, lower + kTile, kTileBytes);
    _tile_dpbssd(5, 6, 7);
  }
}

// Adds up the three sums of some rows.
__attribute__((TFSMITH_TILES)) void CombineDigits(const int32_t* sums, int64_t rows, bool adds, char* target,
                                                  int64_t target_bytes) {
  constexpr int64_t kNext = kTile / 4;  // from the sums of one weight to those of the next
  for (int64_t row = 0; row < rows; ++row, sums += kColumns, target += target_bytes) {
    const __m512 large = _mm512_cvtepi32_ps(_mm512_load_si512(sums));
    const __m512 middle = _mm512_cvtepi32_ps(_mm512_load_si512(sums + kNext));
    const __m512 small = _mm512_cvtepi32_ps(_mm512_load_si512(sums + 2 * kNext));
    __m512 all = _mm512_fmadd_ps(middle, _mm512_set1_ps(256.0f), small);
    all = _mm512_fmadd_ps(large, _mm512_set1_ps(65536.0f), all);
    if (adds) all = _mm512_add_ps(all, _mm512_loadu_ps(target));
    _mm512_storeu_ps(target, all);
  }
}

template <bool kLower>
__attribute__((TFSMITH_TILES)) void MultiplyDigits(const Block& block) {
  asm volatile("" : : : "memory");
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int64_t step = 0; step < block.steps; ++step) {
    FetchSoon(block, step);
    AddDigits<kLower>(block, step);
  }
  alignas(64) int32_t sums[3 * kTile / 4];
  char* const bytes = reinterpret_cast<char*>(sums);
  _tile_stored(0, bytes, kTileBytes);
  _tile_stored(1, bytes + kTile, kTileBytes);
  _tile_stored(2, bytes + 2 * kTile, kTileBytes);
  CombineDigits(sums, block.rows[0], block.adds, block.target, block.target_bytes);
  if constexpr (!kLower) return;
  _tile_stored(3, bytes, kTileBytes);
  _tile_stored(4, bytes + kTile, kTileBytes);
  _tile_stored(5, bytes + 2 * kTile, kTileBytes);
  CombineDigits(sums, block.rows[1], block.adds, block.target + kTileRows * block.target_bytes, block.target_bytes);
}

}  // namespace

bool IsThere() {
  static const bool there = Find();
  return there;
}

void Begin() { Configure(TileConfig()); }

// So that the system need not save 8 KiB when it switches threads.
void End() { asm volatile("tilerelease"); }

void Multiply(Precision precision, const Block& block) {
  CheckMemory(precision, block);
  if (precision == Precision::kSplit) {
    if (block.rows[1] > 0) return MultiplyDigits<true>(block);
    return MultiplyDigits<false>(block);
  }
  // The rows that a tile lacks are neither read nor written.
  const bool whole = block.rows[0] == kTileRows && (block.rows[1] == kTileRows || block.rows[1] == 0);
  if (!whole) {
    TileConfig config;
    config.rows[0] = config.rows[1] = config.rows[4] = static_cast<uint8_t>(block.rows[0]);
    config.rows[2] = config.rows[3] = config.rows[5] = static_cast<uint8_t>(std::max<int64_t>(1, block.rows[1]));
    Configure(config);
  }
  if (precision == Precision::kInt8) {
    MultiplyPlain<true>(block);
  } else {
    MultiplyPlain<false>(block);
  }
  if (!whole) Begin();
}

}  // namespace tfsmith::bert::amx
