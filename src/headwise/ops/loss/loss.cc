// Cross-entropy's entry point and its list of implementations. Door: loss.h.
#include "headwise/ops/loss/loss.h"

#include <string>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/ids.h"
#include "headwise/ops/loss/implementation.h"

namespace headwise {
namespace {

// What lies on a device is not read here: its implementations take care.
void CheckTargets(const ConstTensorView& targets, int64_t classes) {
  for (int64_t row = 0; targets.device.is_cpu() && row < targets.shape[0];
       ++row) {
    const int64_t target = IdAt(targets, row);
    if (target == kIgnoreTarget || (target >= 0 && target < classes)) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        {"loss", "targets in [0, " + std::to_string(classes) + ")",
         std::to_string(target) + " in row " + std::to_string(row), ""});
  }
}

}  // namespace

ImplementationList<CrossEntropyCall> CrossEntropyImplementations() {
  static const Implementation<CrossEntropyCall> kList[] = {
      kCrossEntropyCuda, kCrossEntropyCpuF32, kCrossEntropyReference};
  return {"loss", kList};
}

void CrossEntropy(Context& context, const CrossEntropyProblem& problem,
                  const CrossEntropyArgs& args) {
  const ConstTensorView& logits = args.logits;
  if (logits.rank != 2) {
    throw Error(ErrorCode::kInvalidArgument,
                {"loss", "logits of rank 2", ToString(logits), ""});
  }
  const int64_t rows = logits.shape[0];
  const Device device = logits.device;
  CheckView("loss", "logits", logits, logits.type, ShapeOf(logits), device);
  CheckIds("loss", "targets", args.targets, rows, device);
  CheckView("loss", "losses", args.losses, DType::kF32, {rows}, device);
  if (args.dlogits) {
    CheckView("loss", "dlogits", args.dlogits, logits.type, ShapeOf(logits),
              device);
  }
  CheckTargets(args.targets, logits.shape[1]);
  Dispatch(context, CrossEntropyImplementations(), {problem, args});
}

}  // namespace headwise
