// SharedKeys. Door: shared_keys.h.
#include "headwise/nn/shared_keys.h"

#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

void AddOrKeep(Context& context, const ConstTensorView& gradient, Temp& sum) {
  if (sum) return AddTo(context, gradient, sum.view());
  sum = CopyOf(context, gradient);
}

}  // namespace

void SharedKeys::Layer::AddGradients(Context& context,
                                     ConstTensorView k_gradient,
                                     ConstTensorView v_gradient) {
  AddOrKeep(context, k_gradient, dk);
  AddOrKeep(context, v_gradient, dv);
}

void SharedKeys::Layer::TakeGradients(Context& context, TensorView k_gradient,
                                      TensorView v_gradient) {
  if (!dk) return;
  AddTo(context, dk.view(), k_gradient);
  AddTo(context, dv.view(), v_gradient);
  dk = Temp();
  dv = Temp();
}

std::shared_ptr<SharedKeys::Layer> SharedKeys::Put(Context& context,
                                                   int64_t layer,
                                                   ConstTensorView k,
                                                   ConstTensorView v) {
  std::shared_ptr<Layer>& kept = layers_[layer];
  if (kept == nullptr) kept = std::make_shared<Layer>();
  kept->k = CopyOf(context, k);
  kept->v = CopyOf(context, v);
  return kept;
}

std::shared_ptr<SharedKeys::Layer> SharedKeys::Find(int64_t layer) const {
  const auto found = layers_.find(layer);
  return found == layers_.end() ? nullptr : found->second;
}

}  // namespace headwise
