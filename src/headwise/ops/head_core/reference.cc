// The reference: row after row, host memory. Door: implementation.h.
#include <algorithm>

#include "headwise/ops/head_core/implementation.h"
#include "headwise/ops/head_core/row.h"

namespace headwise {
namespace {

Reason WhyNot(const HeadCoreCall& call) {
  return call.args.entropy.device.is_cpu() ? "" : "reads host memory only";
}

void Run(Context&, const HeadCoreCall& call) {
  const CoreRows rows = CoreRowsOf(call);
  const int64_t sequences = call.args.sums.shape[0];
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t begin = rows.query_starts[b], end = rows.query_starts[b + 1];
    const int64_t keys = rows.key_starts[b + 1] - rows.key_starts[b];
    for (int64_t h = 0; h < rows.heads; ++h) {
      double sums[kCoreColumns] = {};
      for (int64_t t = begin; t < end; ++t) {
        AddCoreRow(rows, CoreValuesAt(rows, h, t), t, t - begin, keys, sums);
      }
      std::copy_n(sums, kCoreColumns,
                  static_cast<double*>(call.args.sums.data) +
                      (b * rows.heads + h) * kCoreColumns);
    }
  }
}

}  // namespace

const Implementation<HeadCoreCall> kHeadCoreReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
