// Tables of losses that ranks fill together: each rank computes the columns of
// its own parts of the text, rank 0 gathers them as they come, for checkpoints,
// and at the end every rank has all.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "headwise/dist/group.h"
#include "headwise/heads/importance/kept_losses.h"

namespace headwise {

class SharedLosses {
 public:
  // null: this process alone.
  explicit SharedLosses(dist::Group* group) : group_(group) {}

  size_t ranks() const { return IsAlone() ? 1 : group_->size(); }
  // Parts of a text are dealt out in turn.
  bool Owns(size_t part) const {
    return IsAlone() || part % ranks() == static_cast<size_t>(group_->rank());
  }
  // Every rank's bytes of a round, in which each had one part of the text.
  std::vector<std::string> Exchange(std::string bytes);

  // A stage begins: tables of equal columns, equal on all ranks. `missing`:
  // parts that are still to be computed.
  void Begin(std::vector<LossTable*> tables,
             const std::vector<size_t>& missing);
  // The columns of a part that this rank computed are done.
  void Give(size_t part, size_t first, size_t count);
  // Rank 0: takes what has come within so many seconds; the parts it was.
  std::vector<size_t> Collect(double seconds);
  // The stage ends when all is there; `wait` is called now and then, and may
  // throw.
  void Finish(const std::function<void(std::vector<size_t> arrived)>& wait);

 private:
  bool IsAlone() const { return group_ == nullptr || group_->is_single(); }

  dist::Group* group_;
  std::vector<LossTable*> tables_;
  size_t expected_ = 0;  // parts that other ranks still owe to rank 0
};

}  // namespace headwise
