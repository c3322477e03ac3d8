// Door: rope_table.h.
#include "headwise/nn/rope_table.h"

#include <utility>

#include "headwise/nn/attention_layer.h"

namespace headwise {

RopeTable::Made::Made(std::vector<float> of)
    : numbers(std::move(of)),
      values(Parameter{.name = "rotary frequencies",
                       .value = ViewOf(std::as_const(numbers))}) {}

RopeTable::RopeTable(const RopeConfig& config)
    : config_(config),
      first_length_(RopeLength(config, 0)),
      first_(RopeFrequencies(config)) {}

ConstTensorView RopeTable::frequencies(Context& context,
                                       const SequenceBatch& batch) const {
  if (first_length_ == 0) return first_.values.view(context);
  const int64_t length = RopeLength(config_, batch.CallLength());
  if (length == first_length_) return first_.values.view(context);
  const Made* made = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = others_.find(length);
    made = found != others_.end()
               ? &found->second
               : &others_.try_emplace(length, RopeFrequencies(config_, length))
                      .first->second;
  }
  return made->values.view(context);
}

}  // namespace headwise
