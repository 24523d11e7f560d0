// The implementations of products. A build has the library's from either products_onednn.cc or products_portable.cc, and that
// for AMX from dense_amx.cc with either amx.cc or amx_none.cc.
#ifndef TFSMITH_BERT_BACKENDS_H_
#define TFSMITH_BERT_BACKENDS_H_

#include <memory>
#include <vector>

#include "product.h"

namespace tfsmith::bert {

bool LibrarySupports(Precision precision);
std::unique_ptr<DenseProduct> MakeLibraryDense(Precision precision, int64_t depth, std::vector<Panel> panels);

// Whether CPU and operating system have AMX's tiles, for all of kSplit, kBfloat16 and kInt8.
bool HasAmx();
RowLayout AmxLayout(Precision precision, int64_t depth);
std::unique_ptr<DenseProduct> MakeAmxDense(Precision precision, int64_t depth, std::vector<Panel> panels);

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_BACKENDS_H_
