// Rope's entry point and its list of implementations. Door: rope.h.
#include "headwise/ops/rope/rope.h"

#include <string>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/ids.h"
#include "headwise/ops/rope/implementation.h"
#include "headwise/tensor/slice.h"

namespace headwise {

ImplementationList<RopeCall> RopeImplementations() {
  static const Implementation<RopeCall> kList[] = {kRopeCuda, kRopeCpuF32,
                                                   kRopeReference};
  return {"rope", kList};
}

namespace {

void Check(const RopeArgs& args) {
  const TensorView& x = args.x;
  const int64_t half = args.frequencies.shape[0];
  if (x.rank != 3 || x.shape[2] < 2 * half) {
    throw Error(ErrorCode::kInvalidArgument,
                {"rope",
                 "x of tokens, heads and at least " + std::to_string(2 * half) +
                     " dimensions",
                 ToString(x), ""});
  }
  CheckView("rope", "x", x, x.type, ShapeOf(x), x.device);
  CheckView("rope", "frequencies", args.frequencies, DType::kF32, {half},
            x.device);
  CheckIds("rope", "positions", args.positions, x.shape[0], x.device);
}

// The last heads of x, as many as the cache has, by sequences.
TensorView KeysOf(const TensorView& x, const TensorView& cache) {
  const int64_t sequences = cache.shape[0], groups = cache.shape[2];
  return Reshaped(Slice(x, 1, x.shape[1] - groups, x.shape[1]),
                  {sequences, x.shape[0] / sequences, groups, x.shape[2]});
}

void CheckAppend(const TensorView& x, const RopeAppend& append) {
  const TensorView& keys = append.keys;
  const bool fits = keys.rank == 4 && keys.shape[0] > 0 &&
                    x.shape[0] % keys.shape[0] == 0 &&
                    keys.shape[2] <= x.shape[1] &&
                    append.values.from.rank == 4 && append.values.to.rank == 4;
  if (fits) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"rope",
               "keys and values of sequences, positions, at most " +
                   std::to_string(x.shape[1]) + " heads and their dimensions",
               ToString(keys), ""});
}

// Whether a device takes both at once.
bool AppendsAtOnce(const RopeProblem& problem, const RopeArgs& args,
                   const RopeAppend& append) {
  constexpr int64_t kMostNumbers = int64_t{1} << 22;  // of a token's values
  const TensorView& x = args.x;
  const TensorView& keys = append.keys;
  const auto& [from, to] = append.values;
  const int64_t half = args.frequencies.shape[0];
  const bool alike = keys.type == x.type && from.type == x.type &&
                     to.type == x.type && keys.stride[3] == 1 &&
                     from.stride[3] == 1 && to.stride[3] == 1;
  return x.device.is_cuda() && problem.pairs == RopePairs::kHalves && alike &&
         x.size() > 0 && from.size() > 0 && 2 * half == x.shape[2] &&
         half <= kMostAppended && from.shape[0] * from.shape[1] == x.shape[0] &&
         keys.shape[1] == to.shape[1] && keys.shape[2] == to.shape[2] &&
         to.shape[2] * to.shape[3] <= kMostNumbers;
}

}  // namespace

void Rope(Context& context, const RopeProblem& problem, const RopeArgs& args) {
  Check(args);
  Dispatch(context, RopeImplementations(), {problem, args});
}

void RopeAndAppend(Context& context, const RopeProblem& problem,
                   const RopeArgs& args, const RopeAppend& append) {
  Check(args);
  CheckAppend(args.x, append);
  const Appended keys = {KeysOf(args.x, append.keys), append.keys};
  CheckAppends(context, keys, append.values, append.held);
  if (AppendsAtOnce(problem, args, append)) {
    return Dispatch(context, RopeImplementations(), {problem, args, &append});
  }
  Dispatch(context, RopeImplementations(), {problem, args});
  AppendRows(context, keys, append.values, append.held);
}

}  // namespace headwise
