// Relative positions in buckets (T5, Raffel et al. 2020): a bias of every score
// by the distance j − p of key and query, one number for a head and a bucket of
// distances. Near distances have buckets of their own, farther ones share
// buckets that grow, and the last bucket holds all from max_distance on. Hence
// the bias is a table of the operator's, whose ends stand for all beyond them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/nn/parameter.h"
#include "headwise/tensor/temp.h"

namespace headwise {

struct RelativeBuckets {
  int64_t count = 0;  // 0: no bias
  int64_t max_distance = 0;
  // Half of the buckets are for later keys. Else those are all in bucket 0.
  bool bidirectional = true;
};

// More would be a table of many megabytes a head.
inline constexpr int64_t kMostRelativeDistance = int64_t{1} << 16;

// Whether there are buckets of both kinds, and a distance where they meet.
bool IsSound(const RelativeBuckets& buckets);

// Of distance key − query.
int32_t BucketOf(const RelativeBuckets& buckets, int64_t distance);

// The bias of one layer's heads. Layers that share a table share one of these,
// or have each some of its columns. May be asked from several threads, each
// with its own Context of one device.
class RelativeBias {
 public:
  // table: [buckets, columns]; head h reads column columns[h]. Throws
  // Error(kInvalidArgument) for columns that it does not have.
  RelativeBias(RelativeBuckets buckets, Parameter table,
               std::vector<int32_t> columns);
  // Made of what the caller keeps in one place.
  RelativeBias(const RelativeBias&) = delete;
  RelativeBias& operator=(const RelativeBias&) = delete;

  const RelativeBuckets& buckets() const { return buckets_; }
  const Parameter& table() const { return table_.parameter(); }
  const std::vector<int32_t>& columns() const { return columns_; }
  bool trainable() const { return table().trainable(); }

  // Sets the bias of a call; `made` keeps what the call reads.
  void Forward(Context& context, AttentionProblem& problem, AttentionArgs& args,
               Temp& made) const;
  // dtable [H, 2·reach + 1] as the operator left it is added to the table's
  // gradient.
  void Backward(Context& context, ConstTensorView dtable) const;

 private:
  int64_t distances() const { return std::ssize(bucket_of_distance_); }
  Temp Expanded(Context& context) const;

  RelativeBuckets buckets_;
  Values table_;
  std::vector<int32_t> columns_;
  std::vector<int32_t> bucket_of_distance_;  // of −reach … reach
  // Of a table that does not change: made at first use.
  struct Made {
    std::once_flag once;
    Tensor values;
  };
  mutable Made made_;
};

}  // namespace headwise
