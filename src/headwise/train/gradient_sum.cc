// Door: gradient_sum.h.
#include "headwise/train/gradient_sum.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "headwise/dist/pack.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// How many buckets the backward has completed, for the thread that waits.
class Completed {
 public:
  void AtLeast(size_t count) {
    const std::lock_guard lock(mutex_);
    count_ = std::max(count_, count);
    changed_.notify_all();
  }
  void GiveUp() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }
  // False where it will never be.
  bool WaitFor(size_t bucket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return given_up_ || count_ > bucket; });
    return count_ > bucket;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t count_ = 0;
  bool given_up_ = false;
};

// Views of the pieces end to end in the bytes of a message, f32 [n] each.
template <typename Bytes, typename Use>
void ForPieces(const GradientBucket& bucket, Bytes& bytes, Use&& use) {
  const auto wanted = static_cast<size_t>(bucket.size()) * sizeof(float);
  if (bytes.size() != wanted) {
    throw dist::UnexpectedMessage(wanted, bytes.size());
  }
  size_t at = 0;
  for (const GradientBucket::Piece& piece : bucket.pieces) {
    use(piece, TensorView(bytes.data() + at, DType::kF32, {piece.size()}));
    at += static_cast<size_t>(piece.size()) * sizeof(float);
  }
}

// Copies to and from a device read the message when they are done.
void WaitForDevice(Context& context) {
  if (!context.device().is_cpu()) context.Synchronize();
}

template <typename ViewOfPiece>
std::string BytesOf(Context& context, const GradientBucket& bucket,
                    ViewOfPiece&& view_of) {
  std::string bytes(static_cast<size_t>(bucket.size()) * sizeof(float), '\0');
  ForPieces(bucket, bytes, [&](const auto& piece, const TensorView& to) {
    Copy(context, view_of(piece), to);
  });
  WaitForDevice(context);
  return bytes;
}

}  // namespace

GradientSum::GradientSum(Context& context, const Model& model,
                         ParameterStore& store, const GradientSharing& sharing)
    : context_(context),
      store_(store),
      sharing_(sharing),
      tree_(sharing.group, sharing.parts),
      buckets_(model, store, sharing.bucket) {
  if (sharing.reduce == GradientReduction::kNccl) {
    const auto alone = dist::MakeSingleGroup();
    devices_ = dist::MakeNcclGroup(
        context, sharing.group != nullptr ? *sharing.group : *alone);
    return;
  }
  // What a device computes is queued: nobody knows when a part is done.
  if (tree_.ranks() > 1 && context.device().is_cpu()) {
    beside_.emplace(ContextOptions{.threads = 1});
  }
}

TensorView GradientSum::Gradient(const Piece& piece) const {
  return Slice(store_.buffers()[piece.buffer].gradient.view(), 0, piece.begin,
               piece.end);
}

void GradientSum::Keep(int64_t number) {
  Kept& kept = kept_[number];
  for (const ParameterStore::Buffer& buffer : store_.buffers()) {
    kept.emplace_back();
    if (buffer.gradient.size() == 0) continue;
    kept.back() = CopyOf(context_, buffer.gradient.view());
  }
}

void GradientSum::AddKept(int64_t number) {
  const Kept& kept = kept_.at(number);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    AddTo(context_, kept[i].view(), store_.buffers()[i].gradient.view());
  }
  kept_.erase(number);
}

void GradientSum::Sum(const Differentiate& differentiate) {
  if (devices_ != nullptr) {
    SumOnDevices(differentiate);
  } else {
    SumInTree(differentiate);
  }
}

void GradientSum::SumOnDevices(const Differentiate& differentiate) {
  store_.ClearGradients(context_);
  for (int64_t part = tree_.begin(); part < tree_.end(); ++part) {
    differentiate(part, nullptr);
  }
  for (ParameterStore::Buffer& buffer : store_.buffers()) {
    if (buffer.gradient.size() > 0) devices_->AllReduce(buffer.gradient.view());
  }
}

void GradientSum::SumInTree(const Differentiate& differentiate) {
  kept_.clear();
  for (const TreeStep& step : tree_.before()) {
    if (step.kind == TreeStep::Kind::kDifferentiate) {
      store_.ClearGradients(context_);
      differentiate(step.of, nullptr);
    } else if (step.kind == TreeStep::Kind::kKeep) {
      Keep(step.of);
    } else {
      AddKept(step.of);
    }
  }
  store_.ClearGradients(context_);
  if (beside_) {
    SumUnderBackward(differentiate);
  } else {
    differentiate(tree_.last_part(), nullptr);
    FinishBuckets(context_, [](size_t) { return true; });
  }
  kept_.clear();
}

void GradientSum::SumUnderBackward(const Differentiate& differentiate) {
  Completed completed;
  std::exception_ptr failed;
  {
    const std::jthread reducing([&] {
      try {
        FinishBuckets(*beside_,
                      [&](size_t bucket) { return completed.WaitFor(bucket); });
      } catch (...) {
        failed = std::current_exception();
      }
    });
    const PartDone done = [&](const std::string& part) {
      completed.AtLeast(buckets_.CompleteAfter(part));
    };
    try {
      differentiate(tree_.last_part(), &done);
    } catch (...) {
      completed.GiveUp();
      throw;
    }
    completed.AtLeast(buckets_.size());
  }
  if (failed) std::rethrow_exception(failed);
}

// One bucket is spread while the next goes up: who waits for the sum of all has
// sent what others wait for.
void GradientSum::FinishBuckets(Context& context,
                                const std::function<bool(size_t)>& wait_for) {
  if (tree_.after().empty() && tree_.ranks() == 1) return;
  Laps laps(sharing_.timeline, Timeline::Row::kReduce);
  const bool first = sharing_.group == nullptr || sharing_.group->is_first();
  const auto spread = [&](size_t bucket) {
    if (tree_.ranks() == 1) return;
    SpreadOut(context, bucket);
    laps.End(fmt::format("spread bucket {}", bucket));
  };
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (!wait_for(bucket)) return;
    laps.Begin();
    SumUp(context, bucket);
    laps.End(fmt::format("sum bucket {}", bucket));
    if (first) {
      spread(bucket);
    } else if (bucket > 0) {
      spread(bucket - 1);
    }
  }
  if (!first && buckets_.size() > 0) spread(buckets_.size() - 1);
}

void GradientSum::SumUp(Context& context, size_t number) {
  const GradientBucket& bucket = buckets_[number];
  const auto post = [&](int to, auto&& view_of) {
    sharing_.group->Post(to, dist::Channel::kCollective,
                         BytesOf(context, bucket, view_of));
  };
  for (const TreeStep& step : tree_.after()) {
    const auto kept = [&](const Piece& piece) {
      return Slice(kept_.at(step.of)[piece.buffer].view(), 0, piece.begin,
                   piece.end);
    };
    if (step.kind == TreeStep::Kind::kAddKept) {
      for (const Piece& piece : bucket.pieces) {
        AddTo(context, kept(piece), Gradient(piece));
      }
    } else if (step.kind == TreeStep::Kind::kPost) {
      post(step.other, [&](const Piece& piece) { return Gradient(piece); });
    } else if (step.kind == TreeStep::Kind::kPostKept) {
      post(step.other, kept);
    } else {
      std::string bytes =
          sharing_.group->Take(step.other, dist::Channel::kCollective);
      ForPieces(bucket, bytes, [&](const Piece& piece, const TensorView& from) {
        Temp copy;
        AddTo(context, OnDevice(context, from, copy), Gradient(piece));
        WaitForDevice(context);
      });
    }
  }
}

void GradientSum::SpreadOut(Context& context, size_t number) {
  const GradientBucket& bucket = buckets_[number];
  std::string bytes;
  if (sharing_.group->is_first()) {
    bytes = BytesOf(context, bucket,
                    [&](const Piece& piece) { return Gradient(piece); });
  }
  sharing_.group->Broadcast(bytes);
  if (sharing_.group->is_first()) return;
  ForPieces(bucket, bytes, [&](const Piece& piece, const TensorView& from) {
    Copy(context, from, Gradient(piece));
  });
  WaitForDevice(context);
}

}  // namespace headwise
