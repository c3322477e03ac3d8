// Maps of the kept sequences, by second passes. Door: atlas_pass.h.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "headwise/dist/pack.h"
#include "headwise/heads/atlas/atlas_pass.h"
#include "headwise/model/head_ref.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

constexpr int64_t kMapTokens = 2048;  // together, at least one sequence

// A head that wants a sequence, and its place among those of the head.
struct MapWish {
  size_t head = 0;
  size_t slot = 0;
};

struct WantedSequence {
  int64_t sequence = 0;
  std::vector<MapWish> wishes;
};

std::vector<WantedSequence> WantedOf(
    const std::vector<std::vector<KeptSequence>>& chosen) {
  std::map<int64_t, std::vector<MapWish>> wishes;
  for (size_t head = 0; head < chosen.size(); ++head) {
    for (size_t slot = 0; slot < chosen[head].size(); ++slot) {
      wishes[chosen[head][slot].sequence].push_back({head, slot});
    }
  }
  std::vector<WantedSequence> wanted;
  for (auto& [sequence, by] : wishes) wanted.push_back({sequence, by});
  return wanted;
}

// The largest keys of every query of a run's sequences, of the heads that want
// them: [sequence][wish].
class LargestKeys : public RunHooks {
 public:
  LargestKeys(Context& context, const std::vector<HeadRef>& heads,
              std::span<const WantedSequence> wanted,
              std::vector<int64_t> lengths, const AtlasJob& job)
      : context_(context),
        heads_(heads),
        wanted_(wanted),
        lengths_(std::move(lengths)),
        job_(job) {
    for (const WantedSequence& one : wanted) {
      maps_.emplace_back(one.wishes.size());
    }
  }

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    for (size_t s = 0; s < wanted_.size(); ++s) {
      const std::vector<MapWish>& wishes = wanted_[s].wishes;
      const auto is_here = [&](const MapWish& wish) {
        return heads_[wish.head].layer == site.layer;
      };
      if (std::ranges::none_of(wishes, is_here)) continue;
      Look(problem, args, s);
      for (size_t w = 0; w < wishes.size(); ++w) {
        if (!is_here(wishes[w])) continue;
        maps_[s][w] =
            MapOf(heads_[wishes[w].head].head, problem.heads, lengths_[s]);
      }
    }
  }

  std::string Packed() const {
    dist::Packer to;
    for (const std::vector<SparseMap>& maps : maps_) {
      for (const SparseMap& map : maps) {
        to.Put(map.places);
        to.Put(map.values);
      }
    }
    return to.Take();
  }

 private:
  void Look(const AttentionProblem& problem, const AttentionArgs& args,
            size_t sequence) {
    const int64_t tokens = lengths_[sequence];
    top_ = std::min(job_.keys, tokens);
    std::vector<RowRef> rows;
    for (int64_t q = 0; q < tokens; ++q) {
      rows.push_back({static_cast<int64_t>(sequence), q});
    }
    Tensor keys(context_, DType::kI32, {tokens, problem.heads, top_});
    Tensor shares(context_, DType::kF32, {tokens, problem.heads, top_});
    AttentionTopK(context_, problem, args, rows, keys.view(), shares.view());
    keys_ = ToVector<int32_t>(context_, keys.view());
    shares_ = ToVector<float>(context_, shares.view());
  }

  SparseMap MapOf(int64_t head, int64_t heads, int64_t tokens) const {
    SparseMap map;
    std::vector<std::pair<int32_t, float>> row;
    for (int64_t q = 0; q < tokens; ++q) {
      row.clear();
      for (int64_t i = 0; i < top_; ++i) {
        const int64_t at = (q * heads + head) * top_ + i;
        if (keys_[at] < 0 || !(shares_[at] >= job_.least)) break;
        row.emplace_back(keys_[at], shares_[at]);
      }
      std::sort(row.begin(), row.end());
      for (const auto& [key, share] : row) {
        map.places.push_back(static_cast<int32_t>(q * tokens + key));
        map.values.push_back(share);
      }
    }
    return map;
  }

  Context& context_;
  const std::vector<HeadRef>& heads_;
  std::span<const WantedSequence> wanted_;
  std::vector<int64_t> lengths_;
  const AtlasJob& job_;
  int64_t top_ = 0;
  std::vector<int32_t> keys_;
  std::vector<float> shares_;
  std::vector<std::vector<SparseMap>> maps_;
};

// The site that the last of their heads is at.
const AttentionSite& LastSiteOf(const Model& model,
                                const std::vector<HeadRef>& heads,
                                std::span<const WantedSequence> wanted) {
  size_t last = 0;
  for (const WantedSequence& one : wanted) {
    for (const MapWish& wish : one.wishes) last = std::max(last, wish.head);
  }
  return AttentionLayers(model, heads[last].kind)[heads[last].layer]->site();
}

std::string MapPart(Context& context, const Model& model, const AtlasSums& sums,
                    const std::vector<HeadRef>& heads,
                    std::span<const WantedSequence> wanted,
                    const AtlasJob& job) {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
  for (const WantedSequence& one : wanted) {
    const std::vector<int32_t>& own = sums.ids(one.sequence);
    ids.insert(ids.end(), own.begin(), own.end());
    lengths.push_back(static_cast<int64_t>(own.size()));
  }
  LargestKeys largest(context, heads, wanted, lengths, job);
  Forward(context, model,
          {.ids = ids,
           .lengths = lengths,
           .hooks = &largest,
           .stop_after = &LastSiteOf(model, heads, wanted)});
  return largest.Packed();
}

}  // namespace

std::vector<std::vector<SparseMap>> MapSequences(
    Context& context, const Model& model, const AtlasSums& sums,
    const std::vector<std::vector<KeptSequence>>& chosen, const AtlasJob& job,
    const PassOptions& options) {
  const std::vector<WantedSequence> wanted = WantedOf(chosen);
  const std::vector<size_t> ends =
      CutByRoom(wanted.size(), kMapTokens, [&](size_t i) {
        return static_cast<int64_t>(sums.ids(wanted[i].sequence).size());
      });
  const auto part_of = [&](size_t part) {
    const size_t begin = part == 0 ? 0 : ends[part - 1];
    return std::span(wanted).subspan(begin, ends[part] - begin);
  };
  std::vector<std::vector<SparseMap>> maps;
  for (const auto& own : chosen) maps.emplace_back(own.size());
  // Messages end to end: what is added is unpacked when all are there.
  std::string all;
  PassWork work;
  work.stage = "atlas maps";
  for (size_t part = 0; part < ends.size(); ++part) {
    work.sizes.push_back(static_cast<double>(part_of(part).size()));
  }
  work.add = [&](std::string_view message) { all += message; };
  work.unpack = work.add;
  work.pack = [&] { return all; };
  const std::vector<HeadRef> heads = AllHeads(model);
  TextPass(options, std::move(work)).Run([&](size_t part, std::string_view) {
    return MapPart(context, model, sums, heads, part_of(part), job);
  });
  if (options.group != nullptr && !options.group->is_first()) return maps;
  dist::Unpacker from(all);
  for (const WantedSequence& one : wanted) {
    for (const MapWish& wish : one.wishes) {
      SparseMap& map = maps[wish.head][wish.slot];
      map.places = from.GetVector<int32_t>();
      map.values = from.GetVector<float>();
    }
  }
  return maps;
}

}  // namespace headwise
