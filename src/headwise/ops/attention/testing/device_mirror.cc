#include "headwise/ops/attention/testing/device_mirror.h"

#include <functional>
#include <stdexcept>
#include <utility>

#include "headwise/backend/device_backend.h"

namespace headwise {

void DeviceMirror::Add(const TestTensor& tensor) {
  if (context_.device().is_cpu()) return;
  const std::span<std::byte> host = tensor.memory();
  const int64_t bytes = static_cast<int64_t>(host.size());
  Tensor there(context_, DType::kU8, {bytes});
  auto* at = static_cast<std::byte*>(there.view().data);
  copies_.push_back({host, std::move(there), at});
  Upload(tensor);
}

void DeviceMirror::Upload(const TestTensor& tensor) {
  if (context_.device().is_cpu()) return;
  const Copy& copy = CopyOf(tensor.memory().data());
  context_.backend()->Copy(copy.at, copy.host.data(), copy.host.size());
  context_.Synchronize();
}

void DeviceMirror::Download(const TestTensor& tensor) {
  if (context_.device().is_cpu()) return;
  const Copy& copy = CopyOf(tensor.memory().data());
  context_.backend()->Copy(copy.host.data(), copy.at, copy.host.size());
  context_.Synchronize();
}

const DeviceMirror::Copy& DeviceMirror::CopyOf(const void* data) const {
  const std::less<const void*> less;
  for (const Copy& copy : copies_) {
    const std::byte* begin = copy.host.data();
    if (!less(data, begin) && less(data, begin + copy.host.size())) return copy;
  }
  throw std::logic_error("a view of a tensor that was not added");
}

template <typename View>
View DeviceMirror::Moved(View view) const {
  if (context_.device().is_cpu() || !view) return view;
  const Copy& copy = CopyOf(view.data);
  view.data =
      copy.at + (static_cast<const std::byte*>(view.data) - copy.host.data());
  view.device = context_.device();
  return view;
}

TensorView DeviceMirror::On(const TensorView& view) const {
  return Moved(view);
}
ConstTensorView DeviceMirror::On(const ConstTensorView& view) const {
  return Moved(view);
}

AttentionArgs DeviceMirror::On(const AttentionArgs& args) const {
  AttentionArgs there = args;
  for (ConstTensorView* view :
       {&there.q, &there.k, &there.v, &there.query_lengths, &there.key_lengths,
        &there.query_starts, &there.key_starts, &there.query_offsets,
        &there.sink_logits, &there.alibi_slopes, &there.relative_table,
        &there.gates, &there.replacement}) {
    *view = Moved(*view);
  }
  return there;
}

Observation DeviceMirror::On(const Observation& observation) const {
  Observation there = observation;
  for (ConstTensorView* view :
       {&there.key_features, &there.query_labels, &there.key_labels,
        &there.excluded_keys, &there.query_weights}) {
    *view = Moved(*view);
  }
  return there;
}

}  // namespace headwise
