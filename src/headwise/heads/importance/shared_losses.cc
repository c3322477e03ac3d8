// Door: shared_losses.h.
#include "headwise/heads/importance/shared_losses.h"

#include <algorithm>
#include <utility>

#include "headwise/dist/pack.h"

namespace headwise {

using dist::Channel;

std::vector<std::string> SharedLosses::Exchange(std::string bytes) {
  if (!IsAlone()) return group_->AllGather(std::move(bytes));
  std::vector<std::string> own;
  own.push_back(std::move(bytes));
  return own;
}

void SharedLosses::Begin(std::vector<LossTable*> tables,
                         const std::vector<size_t>& missing) {
  tables_ = std::move(tables);
  expected_ = 0;
  if (IsAlone() || !group_->is_first()) return;
  for (const size_t part : missing) expected_ += Owns(part) ? 0 : 1;
}

void SharedLosses::Give(size_t part, size_t first, size_t count) {
  if (IsAlone() || group_->is_first()) return;
  dist::Packer to;
  to.Put(part);
  to.Put(first);
  for (const LossTable* table : tables_) {
    for (const std::vector<double>& row : *table) {
      const auto begin = row.begin() + static_cast<std::ptrdiff_t>(first);
      to.Put(std::vector<double>(begin,
                                 begin + static_cast<std::ptrdiff_t>(count)));
    }
  }
  group_->Post(0, Channel::kWork, to.Take());
}

std::vector<size_t> SharedLosses::Collect(double seconds) {
  std::vector<size_t> arrived;
  if (IsAlone()) return arrived;
  while (auto message = group_->Poll(Channel::kWork, seconds)) {
    dist::Unpacker from(message->bytes);
    arrived.push_back(from.Get<size_t>());
    const auto first = static_cast<std::ptrdiff_t>(from.Get<size_t>());
    for (LossTable* table : tables_) {
      for (std::vector<double>& row : *table) {
        std::ranges::copy(from.GetVector<double>(), row.begin() + first);
      }
    }
    --expected_;
    seconds = 0;
  }
  return arrived;
}

void SharedLosses::Finish(
    const std::function<void(std::vector<size_t> arrived)>& wait) {
  if (IsAlone()) return;
  constexpr double kSeconds = 0.1;
  while (expected_ > 0) wait(Collect(kSeconds));
  for (LossTable* table : tables_) {
    dist::Packer to;
    if (group_->is_first()) {
      for (const std::vector<double>& row : *table) to.Put(row);
    }
    std::string bytes = to.Take();
    group_->Broadcast(bytes);
    dist::Unpacker from(bytes);
    for (std::vector<double>& row : *table) row = from.GetVector<double>();
  }
}

}  // namespace headwise
