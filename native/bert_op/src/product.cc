#include "product.h"

#include <utility>

#include "backends.h"

namespace tfsmith::bert {
namespace {

bool UsesAmx(Precision precision) { return precision != Precision::kFloat && HasAmx(); }

}  // namespace

bool Supports(Precision precision) { return UsesAmx(precision) || LibrarySupports(precision); }

RowLayout LayoutOf(Precision precision, int64_t depth) {
  if (UsesAmx(precision)) return AmxLayout(precision, depth);
  const int64_t bytes = precision == Precision::kFloat ? 4 : (precision == Precision::kBfloat16 ? 2 : 1);
  return {depth, 1, bytes};
}

std::unique_ptr<DenseProduct> MakeDense(Precision precision, int64_t depth, std::vector<Panel> panels) {
  if (UsesAmx(precision)) return MakeAmxDense(precision, depth, std::move(panels));
  return MakeLibraryDense(precision, depth, std::move(panels));
}

}  // namespace tfsmith::bert
