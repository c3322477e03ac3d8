// Door: token_table.h.
#include "headwise/heads/atlas/token_table.h"

#include <algorithm>

namespace headwise {
namespace {

using WeightEntry = TokenWeights::Entry;

bool ByToken(const WeightEntry& a, const WeightEntry& b) {
  return a.token < b.token;
}

bool ByWeight(const WeightEntry& a, const WeightEntry& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

}  // namespace

void TokenWeights::Add(std::vector<Entry> more) {
  std::sort(more.begin(), more.end(), ByToken);
  for (const Entry& entry : more) total_ += entry.weight;
  Merge(more);
}

void TokenWeights::Merge(const std::vector<Entry>& more) {
  std::vector<Entry> all;
  all.reserve(entries_.size() + more.size());
  std::merge(entries_.begin(), entries_.end(), more.begin(), more.end(),
             std::back_inserter(all), ByToken);
  entries_.clear();
  for (const Entry& entry : all) {
    if (!entries_.empty() && entries_.back().token == entry.token) {
      entries_.back().weight += entry.weight;
    } else {
      entries_.push_back(entry);
    }
  }
  if (entries_.size() <= kTokenCounters) return;
  std::vector<Entry> order = entries_;
  std::nth_element(order.begin(), order.begin() + kTokenCounters, order.end(),
                   ByWeight);
  const double least = order[kTokenCounters].weight;
  for (Entry& entry : entries_) entry.weight -= least;
  std::erase_if(entries_, [](const Entry& entry) { return entry.weight <= 0; });
}

void TokenWeights::Pack(dist::Packer& to) const {
  to.Put(total_);
  to.Put(entries_);
}

void TokenWeights::AddPacked(dist::Unpacker& from) {
  total_ += from.Get<double>();
  Merge(from.GetVector<Entry>());
}

std::vector<WeightEntry> TokenWeights::Largest(size_t most) const {
  std::vector<Entry> order = entries_;
  const size_t count = std::min(most, order.size());
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    ByWeight);
  order.resize(count);
  return order;
}

}  // namespace headwise
