// Buckets of distances as a relative bias. Door: relative_bias.h.
#include "headwise/nn/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/embedding/embedding.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Buckets of one direction, and how many of them hold one distance each.
struct OneWay {
  int64_t count;
  int64_t exact;
};
OneWay OneWayOf(const RelativeBuckets& buckets) {
  const int64_t count =
      buckets.bidirectional ? buckets.count / 2 : buckets.count;
  return {count, count / 2};
}

// Rounded to f32 after every step, as transformers does: where a bucket ends at
// a whole distance, another rounding would choose the other bucket.
int64_t FarBucket(const RelativeBuckets& buckets, const OneWay& way,
                  int64_t distance) {
  const auto exact = static_cast<float>(way.exact);
  const auto spread =
      static_cast<float>(std::log(static_cast<double>(buckets.max_distance) /
                                  static_cast<double>(way.exact)));
  const float ratio = static_cast<float>(distance) / exact;
  const auto log = static_cast<float>(std::log(static_cast<double>(ratio)));
  const auto steps = static_cast<float>(way.count - way.exact);
  return std::min(way.exact + static_cast<int64_t>(log / spread * steps),
                  way.count - 1);
}

}  // namespace

bool IsSound(const RelativeBuckets& buckets) {
  const OneWay way = OneWayOf(buckets);
  return way.exact > 0 && buckets.max_distance > way.exact &&
         buckets.max_distance <= kMostRelativeDistance;
}

int32_t BucketOf(const RelativeBuckets& buckets, int64_t distance) {
  const OneWay way = OneWayOf(buckets);
  const bool later = buckets.bidirectional && distance > 0;
  const int64_t far = buckets.bidirectional ? std::abs(distance)
                                            : std::max<int64_t>(0, -distance);
  const int64_t bucket = far < way.exact ? far : FarBucket(buckets, way, far);
  return static_cast<int32_t>(bucket + (later ? way.count : 0));
}

RelativeBias::RelativeBias(RelativeBuckets buckets, Parameter table,
                           std::vector<int32_t> columns)
    : buckets_(buckets),
      table_(std::move(table)),
      columns_(std::move(columns)) {
  const ConstTensorView& values = this->table().value;
  for (const int32_t column : columns_) {
    if (column >= 0 && column < values.shape[1]) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        {this->table().name, "columns below " + std::to_string(values.shape[1]),
         std::to_string(column), ""});
  }
  // The last distance whose bucket is not that of all beyond it.
  int64_t reach = buckets_.max_distance;
  while (reach > 1 &&
         BucketOf(buckets_, -reach) == BucketOf(buckets_, 1 - reach)) {
    --reach;
  }
  for (int64_t d = -reach; d <= reach; ++d) {
    bucket_of_distance_.push_back(BucketOf(buckets_, d));
  }
}

// f32 [H, 2·reach + 1]
Temp RelativeBias::Expanded(Context& context) const {
  const ConstTensorView table = table_.view(context);
  Temp rows, heads;
  Temp by_distance(context, DType::kF32, {distances(), table.shape[1]});
  GatherRows(context, table,
             OnDevice(context, ViewOf(bucket_of_distance_), rows),
             by_distance.view());
  Temp expanded(context, DType::kF32, {std::ssize(columns_), distances()});
  GatherRows(context, Transposed(std::as_const(by_distance).view(), 0, 1),
             OnDevice(context, ViewOf(columns_), heads), expanded.view());
  return expanded;
}

void RelativeBias::Forward(Context& context, AttentionProblem& problem,
                           AttentionArgs& args, Temp& made) const {
  problem.bias = AttentionBias::kRelative;
  problem.relative_reach = distances() / 2;
  if (!table().fixed()) {
    made = Expanded(context);
    args.relative_table = made.view();
    return;
  }
  std::call_once(made_.once, [&] {
    made_.values = ToDevice(context, Expanded(context).view());
    context.Synchronize();  // other contexts may read
  });
  args.relative_table = std::as_const(made_.values).view();
}

void RelativeBias::Backward(Context& context, ConstTensorView dtable) const {
  const TensorView& gradient = table().gradient;
  const Temp by_distance(context, DType::kF32,
                         {distances(), gradient.shape[1]});
  Fill(context, 0, by_distance.view());
  Temp rows, heads;
  ScatterRows(context, dtable, OnDevice(context, ViewOf(columns_), heads),
              Transposed(by_distance.view(), 0, 1));
  EmbeddingBackward(context,
                    OnDevice(context, ViewOf(bucket_of_distance_), rows),
                    {by_distance.view(), gradient});
}

}  // namespace headwise
