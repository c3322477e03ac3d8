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

// A binomial tree over ranks, down from one of them: `receive` is called with
// the rank above, then `send` with each below.
template <typename Receive, typename Send>
void Spread(const Group& group, int from, Receive&& receive, Send&& send) {
  const int size = group.size();
  const int place = (group.rank() - from + size) % size;  // that one has 0
  const auto rank_at = [&](int at) { return (at + from) % size; };
  int reach = 1;
  while (reach < size) reach *= 2;
  for (int step = reach / 2; step >= 1; step /= 2) {
    if (place % (2 * step) == 0 && place + step < size) {
      send(rank_at(place + step));
    } else if (place % (2 * step) == step) {
      receive(rank_at(place - step));
    }
  }
}

// Calls `use` with every stretch of a dense view's bytes, as [begin, size).
template <typename Use>
void ForStretches(const ConstTensorView& view, Use&& use) {
  const auto total = static_cast<size_t>(BytesOf(view.type, view.size()));
  for (size_t begin = 0; begin < total; begin += kBucketBytes) {
    use(begin, std::min(kBucketBytes, total - begin));
  }
}

void Unpack(const std::string& bytes, char* to, size_t size) {
  if (bytes.size() != size) throw UnexpectedMessage(size, bytes.size());
  std::memcpy(to, bytes.data(), size);
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
      *this, 0, [&](int above) { bytes = Take(above, Channel::kCollective); },
      [&](int below) { Post(below, Channel::kCollective, bytes); });
}

void Group::Broadcast(const TensorView& view, int from) {
  char* data = static_cast<char*>(view.data);
  ForStretches(view, [&](size_t begin, size_t size) {
    Spread(
        *this, from,
        [&](int above) {
          Unpack(Take(above, Channel::kCollective), data + begin, size);
        },
        [&](int below) {
          Post(below, Channel::kCollective, std::string(data + begin, size));
        });
  });
}

void Group::Send(int to, const ConstTensorView& view) {
  const char* data = static_cast<const char*>(view.data);
  ForStretches(view, [&](size_t begin, size_t size) {
    Post(to, Channel::kCollective, std::string(data + begin, size));
  });
}

void Group::Receive(int from, const TensorView& view) {
  char* data = static_cast<char*>(view.data);
  ForStretches(view, [&](size_t begin, size_t size) {
    Unpack(Take(from, Channel::kCollective), data + begin, size);
  });
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
