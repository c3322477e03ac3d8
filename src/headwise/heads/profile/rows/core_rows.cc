// The entry point, its list of implementations, and the reference. Door:
// core_rows.h.
#include "headwise/heads/profile/rows/core_rows.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/error.h"
#include "headwise/heads/profile/rows/core_row.h"
#include "headwise/ops/check_view.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

void CheckCore(const CoreRowsProblem& problem, const CoreRowsArgs& a) {
  const Device device = a.entropy.device;
  if (a.entropy.rank != 3 || a.query_starts.rank != 1 ||
      std::min(problem.before, problem.after) < 0 ||
      std::max(problem.before, problem.after) > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                {"core rows",
                 "entropy [1, H, T], query_starts [B + 1] and a band of at "
                 "most 1 before and after",
                 ToString(a.entropy) + ", " + ToString(a.query_starts), ""});
  }
  const int64_t heads = a.entropy.shape[1], rows = a.entropy.shape[2];
  const int64_t starts = a.query_starts.shape[0];
  const Shape row = {1, heads, rows};
  CheckDense("core rows", "entropy", a.entropy, DType::kF32, row, device);
  CheckDense("core rows", "max_probability", a.max_probability, DType::kF32,
             row, device);
  CheckDense("core rows", "argmax", a.argmax, DType::kI32, row, device);
  CheckDense("core rows", "distance", a.distance, DType::kF32, row, device);
  CheckDense("core rows", "first", a.first, DType::kF32, row, device);
  if (!problem.cross) {
    CheckDense("core rows", "band", a.band, DType::kF32,
               {1, heads, rows, problem.before + problem.after + 1}, device);
  }
  CheckDense("core rows", "query_starts", a.query_starts, DType::kI32, {starts},
             device);
  CheckDense("core rows", "key_starts", a.key_starts, DType::kI32, {starts},
             device);
  if (a.special) {
    CheckDense("core rows", "special", a.special, DType::kU8, {rows}, device);
  }
  CheckDense("core rows", "sums", a.sums, DType::kF64,
             {starts - 1, heads, kCoreColumns}, device);
}

Reason WhyNotReference(const CoreRowsCall& call) {
  return call.args.entropy.device.is_cpu() ? "" : "reads host memory only";
}

void RunReference(Context& context, const CoreRowsCall& call) {
  const CoreRows rows = CoreRowsOf(call);
  double* to = call.args.sums.Raw<double>();
  const auto add = [&](int64_t at, int) {
    const int64_t b = at / rows.heads, h = at % rows.heads;
    const int64_t begin = rows.query_starts[b], end = rows.query_starts[b + 1];
    const int64_t keys = rows.key_starts[b + 1] - rows.key_starts[b];
    double sums[kCoreColumns] = {};
    for (int64_t t = begin; t < end; ++t) {
      AddCoreRow(rows, CoreValuesAt(rows, h, t), t, t - begin, keys, sums);
    }
    std::copy(std::begin(sums), std::end(sums), to + at * kCoreColumns);
  };
  context.pool().ParallelFor(call.args.sums.shape[0] * rows.heads, add);
}

}  // namespace

const Implementation<CoreRowsCall> kCoreRowsReference = {
    .name = "reference", .why_not = WhyNotReference, .run = RunReference};

ImplementationList<CoreRowsCall> CoreRowsImplementations() {
  static const Implementation<CoreRowsCall> kList[] = {kCoreRowsCuda,
                                                       kCoreRowsReference};
  return {"core_rows", kList};
}

void CoreRowSums(Context& context, const CoreRowsProblem& problem,
                 const CoreRowsArgs& args) {
  CheckCore(problem, args);
  if (args.sums.size() == 0) return;
  Dispatch(context, CoreRowsImplementations(), CoreRowsCall{problem, args});
}

}  // namespace headwise
