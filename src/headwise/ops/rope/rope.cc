// Rope's entry point and its list of implementations. Door: rope.h.
#include "headwise/ops/rope/rope.h"

#include <string>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/ids.h"
#include "headwise/ops/rope/implementation.h"

namespace headwise {

ImplementationList<RopeCall> RopeImplementations() {
  static const Implementation<RopeCall> kList[] = {kRopeCuda, kRopeCpuF32,
                                                   kRopeReference};
  return {"rope", kList};
}

void Rope(Context& context, const RopeProblem& problem, const RopeArgs& args) {
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
  Dispatch(context, RopeImplementations(), {problem, args});
}

}  // namespace headwise
