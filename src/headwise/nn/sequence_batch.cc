// Sequences end to end, and their numbers on a device. Door: attention_layer.h.
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "headwise/nn/attention_layer.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {

ConstTensorView NumbersOnDevice::view(
    Context& context, const std::vector<int32_t>& values) const {
  if (context.device().is_cpu()) return ViewOf(values);
  if (from_ != values.data() || device_ != context.device()) {
    copy_ = std::make_shared<const Tensor>(ToDevice(context, ViewOf(values)));
    view_ = copy_->view();
    from_ = values.data();
    device_ = context.device();
  }
  return view_;
}

void NumbersOnDevice::Set(const std::vector<int32_t>& values,
                          const ConstTensorView& there) {
  from_ = values.data();
  device_ = there.device;
  view_ = there;
}

int64_t SequenceBatch::longest() const {
  int32_t most = 0;
  for (size_t b = 1; b < starts.size(); ++b) {
    most = std::max(most, starts[b] - starts[b - 1]);
  }
  return most;
}

int64_t SequenceBatch::CallLength() const {
  if (call_length > 0 || positions.empty()) return call_length;
  return int64_t{*std::ranges::max_element(positions)} + 1;
}

SequenceBatch MakeBatch(std::span<const int64_t> lengths) {
  SequenceBatch batch;
  batch.starts.push_back(0);
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      batch.positions.push_back(static_cast<int32_t>(i));
    }
    batch.starts.push_back(static_cast<int32_t>(batch.positions.size()));
  }
  return batch;
}

}  // namespace headwise
