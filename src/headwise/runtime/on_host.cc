// A host's context, and copies for it. Door: on_host.h.
#include "headwise/runtime/on_host.h"

#include <utility>

#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {

HostContext::HostContext(Context& context) : context_(&context) {
  if (context.device().is_cpu()) return;
  ContextOptions options;
  options.threads = context.threads();
  own_ = std::make_unique<Context>(options);
  context_ = own_.get();
}

HostFloats::HostFloats(Context& context, const ConstTensorView& from)
    : view_(from) {
  if (!from || (from.device.is_cpu() && from.type == DType::kF32)) return;
  // Halves cross as they are and grow on the host.
  Tensor near;
  const ConstTensorView there = OnHost(context, from, near);
  if (there.type == DType::kF32) {
    copy_ = std::move(near);
  } else {
    copy_ = Tensor(DType::kF32, ShapeOf(from));
    Copy(context, there, copy_.view());
  }
  view_ = copy_.view();
}

}  // namespace headwise
