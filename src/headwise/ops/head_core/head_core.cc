// The entry point and its list of implementations. Door: head_core.h.
#include "headwise/ops/head_core/head_core.h"

#include <algorithm>
#include <string>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/head_core/implementation.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

void Check(const HeadCoreProblem& problem, const HeadCoreArgs& a) {
  const Device device = a.entropy.device;
  if (a.entropy.rank != 3 || a.query_starts.rank != 1 ||
      std::min(problem.before, problem.after) < 0 ||
      std::max(problem.before, problem.after) > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                {"head core",
                 "entropy [1, H, T], query_starts [B + 1] and a band of at "
                 "most 1 before and after",
                 ToString(a.entropy) + ", " + ToString(a.query_starts), ""});
  }
  const int64_t heads = a.entropy.shape[1], rows = a.entropy.shape[2];
  const int64_t starts = a.query_starts.shape[0];
  const Shape row = {1, heads, rows};
  CheckDense("head core", "entropy", a.entropy, DType::kF32, row, device);
  CheckDense("head core", "max_probability", a.max_probability, DType::kF32,
             row, device);
  CheckDense("head core", "argmax", a.argmax, DType::kI32, row, device);
  CheckDense("head core", "distance", a.distance, DType::kF32, row, device);
  CheckDense("head core", "first", a.first, DType::kF32, row, device);
  if (!problem.cross) {
    CheckDense("head core", "band", a.band, DType::kF32,
               {1, heads, rows, problem.before + problem.after + 1}, device);
  }
  CheckDense("head core", "query_starts", a.query_starts, DType::kI32, {starts},
             device);
  CheckDense("head core", "key_starts", a.key_starts, DType::kI32, {starts},
             device);
  if (a.special) {
    CheckDense("head core", "special", a.special, DType::kU8, {rows}, device);
  }
  CheckDense("head core", "sums", a.sums, DType::kF64,
             {starts - 1, heads, kCoreColumns}, device);
}

}  // namespace

ImplementationList<HeadCoreCall> HeadCoreImplementations() {
  static const Implementation<HeadCoreCall> kList[] = {kHeadCoreCuda,
                                                       kHeadCoreReference};
  return {"head_core", kList};
}

void HeadCoreSums(Context& context, const HeadCoreProblem& problem,
                  const HeadCoreArgs& args) {
  Check(problem, args);
  if (args.sums.size() == 0) return;
  Dispatch(context, HeadCoreImplementations(), HeadCoreCall{problem, args});
}

}  // namespace headwise
