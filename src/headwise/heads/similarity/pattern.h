// Comparing where heads look, window by window.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/dist/pack.h"
#include "headwise/heads/similarity/record.h"
#include "headwise/model/model.h"
#include "headwise/tensor/matrix.h"

namespace headwise {

// Heads whose rows are distributions over the same keys.
struct PatternGroup {
  AttentionKind kind = AttentionKind::kSelf;
  AttentionMask mask;
  std::vector<int64_t> layers;
  std::vector<size_t> heads;  // indices into AllHeads(model), by layer
};
std::vector<PatternGroup> PatternGroups(const Model& model);

// Sums over windows; Add them all, then read the means.
class PatternSums {
 public:
  explicit PatternSums(const Model& model);

  void Add(Context& context, const WindowRecord& record);
  // As a message; what was packed, of other windows, is merged.
  void Pack(dist::Packer& to) const;
  void MergePacked(dist::Unpacker& from);

  int64_t rows() const { return static_cast<int64_t>(most_rows_); }
  int64_t sampled_rows() const { return most_sampled_; }
  // [heads, heads]; NaN between groups and where no row counted.
  Matrix Bhattacharyya() const;
  Matrix JensenShannon() const;

 private:
  struct Sums {
    Matrix gram, divergence;
    double rows = 0;
    int64_t sampled = 0;
  };
  void AddGram(Context& context, const WindowRecord& record,
               const PatternGroup& group, Sums& sums);
  void AddDivergence(Context& context, const WindowRecord& record,
                     const PatternGroup& group, Sums& sums);
  Matrix Means(Matrix Sums::*member, bool sampled) const;

  std::vector<PatternGroup> groups_;
  std::vector<Sums> sums_;  // one a group
  size_t heads_ = 0;
  double most_rows_ = 0;
  int64_t most_sampled_ = 0;
};

}  // namespace headwise
