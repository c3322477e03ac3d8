// A program's group of ranks. Door: include/headwise/work_group.h.
#include "headwise/work_group.h"

#include "headwise/dist/group.h"
#include "headwise/dist/same_run.h"

namespace headwise {

WorkGroup::WorkGroup() : group_(dist::MakeSingleGroup()) {}
WorkGroup::WorkGroup(const Launch& launch) : group_(dist::JoinGroup(launch)) {}
WorkGroup::~WorkGroup() = default;
WorkGroup::WorkGroup(WorkGroup&&) noexcept = default;
WorkGroup& WorkGroup::operator=(WorkGroup&&) noexcept = default;

int WorkGroup::rank() const { return group_->rank(); }
int WorkGroup::size() const { return group_->size(); }
void WorkGroup::RequireSame(std::span<const RunField> fields) {
  dist::RequireSameRun(*group_, fields);
}
void WorkGroup::Barrier() { group_->Barrier(); }
void WorkGroup::Leave() { group_->Leave(); }
void WorkGroup::Abort(int code) noexcept { group_->Abort(code); }

}  // namespace headwise
