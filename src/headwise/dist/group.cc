// Collectives out of messages. Door: group.h.
#include "headwise/dist/group.h"

#include <algorithm>
#include <cstring>

#include "headwise/dist/pack.h"
#include "headwise/error.h"

namespace headwise::dist {
namespace {

// Bytes that travel as one message: ranks further down the tree pass on one
// while the next arrives.
constexpr size_t kBucketBytes = size_t{4} << 20;

// A binomial tree over ranks, down from rank 0: `receive` is called with the
// rank above, then `send` with each below.
template <typename Receive, typename Send>
void Spread(const Group& group, Receive&& receive, Send&& send) {
  int reach = 1;
  while (reach < group.size()) reach *= 2;
  for (int step = reach / 2; step >= 1; step /= 2) {
    if (group.rank() % (2 * step) == 0 && group.rank() + step < group.size()) {
      send(group.rank() + step);
    } else if (group.rank() % (2 * step) == step) {
      receive(group.rank() - step);
    }
  }
}

template <typename T>
void Reduce(Group& group, std::span<T> values) {
  if (group.is_single() || values.empty()) return;
  const auto as_bytes = [&] {
    return std::string(reinterpret_cast<const char*>(values.data()),
                       values.size_bytes());
  };
  const std::vector<std::string> all = group.Gather(as_bytes());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    Unpacker from(all[rank]);
    for (T& value : values) value += from.Get<T>();
  }
  std::string sum = as_bytes();
  group.Broadcast(sum);
  std::memcpy(values.data(), sum.data(), values.size_bytes());
}

}  // namespace

void Group::Barrier() { AllGather(""); }

void Group::Broadcast(std::string& bytes) {
  Spread(
      *this, [&](int from) { bytes = Take(from, Channel::kCollective); },
      [&](int to) { Post(to, Channel::kCollective, bytes); });
}

void Group::Broadcast(const TensorView& view) {
  char* data = static_cast<char*>(view.data);
  const auto total = static_cast<size_t>(view.size()) * SizeOf(view.type);
  for (size_t begin = 0; begin < total; begin += kBucketBytes) {
    const size_t size = std::min(kBucketBytes, total - begin);
    std::string bucket;
    if (is_first()) bucket.assign(data + begin, size);
    Broadcast(bucket);
    if (bucket.size() != size) throw UnexpectedMessage(size, bucket.size());
    if (!is_first()) std::memcpy(data + begin, bucket.data(), size);
  }
}

std::vector<std::string> Group::Gather(std::string bytes) {
  if (!is_first()) {
    Post(0, Channel::kCollective, std::move(bytes));
    return {};
  }
  std::vector<std::string> all = {std::move(bytes)};
  for (int from = 1; from < size(); ++from) {
    all.push_back(Take(from, Channel::kCollective));
  }
  return all;
}

std::vector<std::string> Group::AllGather(std::string bytes) {
  std::vector<std::string> all = Gather(std::move(bytes));
  Packer packer;
  for (const std::string& one : all) packer.Put(one);
  std::string packed = packer.Take();
  Broadcast(packed);
  Unpacker unpacker(packed);
  all.resize(static_cast<size_t>(size()));
  for (std::string& one : all) one = unpacker.GetString();
  return all;
}

void Group::AllReduce(std::span<double> values) { Reduce(*this, values); }
void Group::AllReduce(std::span<int64_t> values) { Reduce(*this, values); }

std::unique_ptr<Group> JoinGroup(const Launch& launch) {
  return launch.size == 1 ? MakeSingleGroup() : MakeMpiGroup(launch);
}

}  // namespace headwise::dist
