// AMX, the matrix unit of Intel's server CPUs since 2023: products of tiles of 16 rows of 64 bytes.
#ifndef TFSMITH_BERT_AMX_H_
#define TFSMITH_BERT_AMX_H_

#include <cstdint>

#include "config.h"
#include "product.h"

namespace tfsmith::bert::amx {

constexpr int64_t kTileRows = RowLayout::kRows;
constexpr int64_t kTileBytes = RowLayout::kPiece;  // of a row
constexpr int64_t kTile = kTileRows * kTileBytes;
constexpr int64_t kColumns = 16;  // of a tile of results: 64 bytes of float or int32

// How many tiles of columns a block has, and how many tiles each value of the source and each weight takes part in.
constexpr int64_t ColumnTiles(Precision precision) { return precision == Precision::kSplit ? 1 : 2; }
constexpr int64_t Parts(Precision precision) { return precision == Precision::kSplit ? 3 : 1; }
constexpr int64_t Bytes(Precision precision) { return precision == Precision::kBfloat16 ? 2 : 1; }

// Two tiles of rows times the columns of a block. A step is a tile of the source and of the weights, of each part.
struct Block {
  const char* source[2];  // of the two tiles of rows: step after step, in each the parts
  int64_t rows[2];        // of the two; the second may be 0
  const char* weights;    // step after step, in each the parts, of each part the tiles of columns
  int64_t columns;        // tiles of columns that are wanted
  int64_t steps;
  const char* soon;       // weights that will be needed next
  int64_t soon_bytes;     // how many of them to fetch in each step
  char* target;           // its first row
  int64_t target_bytes;   // from one row to the next
  bool adds;              // to what is there
};

// Whether CPU and operating system have it.
bool IsThere();

// Multiply may be called between the two. They belong to a thread.
void Begin();
void End();

// The target gets float, for kInt8 int32. For kSplit: 65536 * (2 * 2) + 256 * (2 * 1 + 1 * 2) + (2 * 0 + 1 * 1 + 0 * 2), where
// 2 * 1 is the product of the sources' digit 2 and the weights' digit 1; digit 2 is the first part.
void Multiply(Precision precision, const Block& block);

}  // namespace tfsmith::bert::amx

#endif  // TFSMITH_BERT_AMX_H_
