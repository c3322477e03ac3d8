// Door: shared_blocks.h.
#include "headwise/heads/profile/shared_blocks.h"

#include <utility>

#include "headwise/dist/pack.h"

namespace headwise {
namespace {

using dist::Packer;
using dist::Unpacker;

void Put(const Example& example, Packer& to) {
  to.Put(example.kind);
  to.Put(example.score);
  to.Put(example.hash);
  to.Put(example.query);
  to.Put(example.first);
  to.Put(example.tokens.size());
  for (const std::string& token : example.tokens) to.Put(token);
  to.Put(example.keys.size());
  for (const Example::Key& key : example.keys) {
    to.Put(key.position);
    to.Put(key.token);
    to.Put(key.mass);
  }
}

Example GetExample(Unpacker& from) {
  Example example;
  example.kind = from.GetString();
  example.score = from.Get<double>();
  example.hash = from.Get<uint64_t>();
  example.query = from.Get<int64_t>();
  example.first = from.Get<int64_t>();
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    example.tokens.push_back(from.GetString());
  }
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    Example::Key& key = example.keys.emplace_back();
    key.position = from.Get<int64_t>();
    key.token = from.GetString();
    key.mass = from.Get<double>();
  }
  return example;
}

void Put(const WindowSums& sums, Packer& to) {
  to.Put(sums.metrics.size());
  for (const auto& [name, tallies] : sums.metrics) {
    to.Put(name);
    to.Put(tallies);
  }
  to.Put(sums.histograms.size());
  for (const std::vector<double>& histogram : sums.histograms) {
    to.Put(histogram);
  }
}

WindowSums GetSums(Unpacker& from) {
  WindowSums sums;
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    std::string name = from.GetString();
    sums.metrics[std::move(name)] = from.GetVector<Tally>();
  }
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    sums.histograms.push_back(from.GetVector<double>());
  }
  return sums;
}

}  // namespace

SharedBlocks::SharedBlocks(dist::Group& group, Profile& profile)
    : group_(group), next_(profile.counts.windows / kBlockWindows) {
  if (group_.is_first()) {
    all_ = profile;
    all_.metrics.clear();
    if (profile.counts.windows % kBlockWindows != 0) {
      Profile copy = profile;
      open_ = TakeSums(copy);
    }
  }
  if (!Owns(next_)) TakeSums(profile);
  // Examples stay: a row that is not among the best so far never will be.
  for (auto& sinks : profile.sinks) sinks.clear();
}

void SharedBlocks::Count(int64_t tokens, uint64_t key) {
  ++counts_.windows;
  counts_.tokens += tokens;
  counts_.text_key += key;
}

void SharedBlocks::Give(int64_t block, Profile& profile) {
  Share share;
  share.counts = std::exchange(counts_, {});
  share.sums = TakeSums(profile);
  share.examples = profile.examples;
  share.sinks = std::exchange(
      profile.sinks,
      std::vector<std::map<std::string, int64_t>>(profile.heads.size()));
  if (group_.is_first()) {
    waiting_[block] = std::move(share);
  } else {
    group_.Post(0, dist::Channel::kWork, Pack(block, share));
  }
}

void SharedBlocks::Collect(double seconds, WindowBlocks& blocks) {
  while (auto message = group_.Poll(dist::Channel::kWork, seconds)) {
    auto [block, share] = Unpack(message->bytes);
    waiting_[block] = std::move(share);
    seconds = 0;
  }
  for (auto first = waiting_.begin();
       first != waiting_.end() && first->first == next_;
       first = waiting_.begin()) {
    Add(std::move(first->second), blocks);
    waiting_.erase(first);
    ++next_;
  }
}

void SharedBlocks::Add(Share share, WindowBlocks& blocks) {
  all_.counts.windows += share.counts.windows;
  all_.counts.tokens += share.counts.tokens;
  all_.counts.text_key += share.counts.text_key;
  for (size_t h = 0; h < all_.heads.size(); ++h) {
    for (const auto& [token, count] : share.sinks[h]) {
      all_.sinks[h][token] += count;
    }
    std::vector<Example>& examples = all_.examples[h];
    examples.insert(examples.end(), share.examples[h].begin(),
                    share.examples[h].end());
    TrimExamples(examples);
  }
  // The sums of a block that was gone on with hold what was open of it.
  open_.reset();
  if (all_.counts.windows % kBlockWindows == 0) {
    blocks.Add(share.sums);
  } else {
    open_ = std::move(share.sums);
  }
}

Profile SharedBlocks::SoFar(Profile profile, const WindowBlocks& blocks) const {
  TakeSums(profile);
  const int64_t documents = profile.counts.documents;
  profile.counts = all_.counts;
  profile.counts.documents = documents;
  profile.sinks = all_.sinks;
  profile.examples = all_.examples;
  if (open_) AddSums(*open_, profile);
  blocks.Total(profile);
  return profile;
}

std::string SharedBlocks::Pack(int64_t block, const Share& share) {
  Packer to;
  to.Put(block);
  to.Put(share.counts);
  Put(share.sums, to);
  to.Put(share.sinks.size());
  for (size_t h = 0; h < share.sinks.size(); ++h) {
    to.Put(share.sinks[h].size());
    for (const auto& [token, count] : share.sinks[h]) {
      to.Put(token);
      to.Put(count);
    }
    to.Put(share.examples[h].size());
    for (const Example& example : share.examples[h]) Put(example, to);
  }
  return to.Take();
}

std::pair<int64_t, SharedBlocks::Share> SharedBlocks::Unpack(
    const std::string& bytes) {
  Unpacker from(bytes);
  const auto block = from.Get<int64_t>();
  Share share;
  share.counts = from.Get<ProfileCounts>();
  share.sums = GetSums(from);
  const auto heads = from.Get<size_t>();
  share.sinks.resize(heads);
  share.examples.resize(heads);
  for (size_t h = 0; h < heads; ++h) {
    for (auto left = from.Get<size_t>(); left > 0; --left) {
      std::string token = from.GetString();
      share.sinks[h][std::move(token)] = from.Get<int64_t>();
    }
    for (auto left = from.Get<size_t>(); left > 0; --left) {
      share.examples[h].push_back(GetExample(from));
    }
  }
  return {block, std::move(share)};
}

}  // namespace headwise
