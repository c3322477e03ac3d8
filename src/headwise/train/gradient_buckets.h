// Gradients cut into buckets, in the order in which a backward completes them:
// from the model's head down to its embeddings. What two parts share (tied
// embeddings) is complete with the later one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/model/parameters.h"

namespace headwise {

struct GradientBucket {
  // [begin, end) of one of the store's buffers.
  struct Piece {
    size_t buffer = 0;
    int64_t begin = 0, end = 0;
    int64_t size() const { return end - begin; }
  };
  std::vector<Piece> pieces;

  int64_t size() const;
};

class GradientBuckets {
 public:
  // size: values of a bucket; the last may have fewer.
  GradientBuckets(const Model& model, const ParameterStore& store,
                  int64_t size);

  size_t size() const { return buckets_.size(); }
  const GradientBucket& operator[](size_t i) const { return buckets_[i]; }

  // The buckets, counted from the first, that are complete when the backward of
  // this part (PartDone) is done.
  size_t CompleteAfter(const std::string& part) const;

 private:
  std::vector<GradientBucket> buckets_;
  std::map<std::string, size_t> complete_;  // by part
};

}  // namespace headwise
