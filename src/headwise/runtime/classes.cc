// Door: classes.h.
#include "headwise/runtime/classes.h"

#include <vector>

#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/on_host.h"
#include "headwise/runtime/pool.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// The one state of each text that a head of texts reads, [texts, width].
std::vector<float> StatesRead(Context& context, const Model& model,
                              const TaskHead& head, const Tensor& x,
                              std::span<const int64_t> lengths) {
  const Pooling pooling = head.averages           ? Pooling::kMean
                          : model.config().causal ? Pooling::kLast
                                                  : Pooling::kCls;
  const std::vector<float> states = ToVector<float>(context, x.view());
  const int64_t width = x.shape(1);
  std::vector<float> read;
  size_t at = 0;
  for (const int64_t length : lengths) {
    const auto size = static_cast<size_t>(length * width);
    PoolStates(std::span(states).subspan(at, size), width, {&pooling, 1}, read);
    at += size;
  }
  return read;
}

}  // namespace

Tensor ClassLogits(Context& context, const Model& model, const TaskHead& head,
                   std::span<const int32_t> ids,
                   std::span<const int64_t> lengths, HookList hooks) {
  const Tensor x =
      Forward(context, model, {.ids = ids, .lengths = lengths, .hooks = hooks});
  if (head.kind == TaskKind::kToken) {
    return ToHost(context, head.Run(context, x.view()).view());
  }
  const std::vector<float> read = StatesRead(context, model, head, x, lengths);
  const Shape shape = {std::ssize(lengths), x.shape(1)};
  const Temp rows(context, DType::kF32, shape);
  Copy(context, Reshaped(ViewOf(read), shape), rows.view());
  return ToHost(context, head.Run(context, rows.view()).view());
}

}  // namespace headwise
