// The reference: rows in double, any type, host memory.
// Door: implementation.h.
#include <cstring>
#include <string>
#include <vector>

#include "headwise/ops/embedding/implementation.h"
#include "headwise/ops/ids.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

Reason WhyNot(const EmbeddingCall& call) {
  return call.args.ids.device.is_cpu() ? "" : "reads host memory only";
}

// An element of a table that a file may have put at any address.
double ReadAnywhere(const ConstTensorView& table, int64_t row, int64_t i) {
  alignas(8) char element[8] = {};
  const int64_t size = ElementSize(table.type);
  std::memcpy(
      element,
      static_cast<const char*>(table.data) + OffsetOf(table, row, i) * size,
      size);
  return Read(ConstTensorView(element, table.type, {1}), 0);
}

void Forward(const EmbeddingCall& call) {
  const EmbeddingArgs& a = call.args;
  const bool add = call.problem.write == EmbeddingWrite::kAdd;
  for (int64_t n = 0; n < a.ids.shape[0]; ++n) {
    for (int64_t i = 0; i < a.table.shape[1]; ++i) {
      const double value = ReadAnywhere(a.table, IdAt(a.ids, n), i);
      Write(a.out, (add ? Read(a.out, n, i) : 0) + value, n, i);
    }
  }
}

// Summed up in double before it is added.
void Backward(const EmbeddingCall& call) {
  const EmbeddingGrads& g = *call.grads;
  const int64_t rows = g.dtable.shape[0], width = g.dtable.shape[1];
  std::vector<double> sums(rows);
  for (int64_t i = 0; i < width; ++i) {
    sums.assign(rows, 0);
    for (int64_t n = 0; n < call.args.ids.shape[0]; ++n) {
      sums[IdAt(call.args.ids, n)] += Read(g.dout, n, i);
    }
    for (int64_t row = 0; row < rows; ++row) {
      Write(g.dtable, Read(g.dtable, row, i) + sums[row], row, i);
    }
  }
}

void Run(Context&, const EmbeddingCall& call) {
  call.grads == nullptr ? Forward(call) : Backward(call);
}

}  // namespace

const Implementation<EmbeddingCall> kEmbeddingReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
