// Sums over a text of what the heads of a layer give, from which any refit of
// the layer's output and its error follow without another pass over the text.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/importance/corpus_runs.h"

namespace headwise {

// Of z, the outputs of a layer's heads side by side, over the rows of a text:
// n, Σ z and Σ z zᵀ, in double.
class OutputMoments {
 public:
  explicit OutputMoments(int64_t width = 0)
      : width_(width), sum_(width), products_(width * width) {}

  // Rows of `width` numbers, dense.
  void Add(const float* z, int64_t rows);
  void Add(const OutputMoments& other);

  int64_t width() const { return width_; }
  double rows() const { return rows_; }
  double mean(int64_t i) const { return sum_[i] / rows_; }
  // E z_i z_j.
  double product(int64_t i, int64_t j) const {
    return (i <= j ? products_[i * width_ + j] : products_[j * width_ + i]) /
           rows_;
  }

 private:
  int64_t width_ = 0;
  double rows_ = 0;
  std::vector<double> sum_;       // [width]
  std::vector<double> products_;  // [width, width], i ≤ j
};

// By the name of the site.
using SiteMoments = std::map<std::string, OutputMoments, std::less<>>;

// Moments of the sites named in `sites`, in one pass of the whole model. The
// options' progress and stop are heard.
SiteMoments GatherMoments(Context& context, const Model& model,
                          std::span<const TextExample> examples,
                          const std::set<std::string>& sites,
                          const CorpusOptions& options);

}  // namespace headwise
