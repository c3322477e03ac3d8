// Door: text_pass.h.
#include "headwise/runtime/text_pass.h"

#include <exception>
#include <utility>

#include "headwise/base/stop.h"
#include "headwise/dist/pack.h"

namespace headwise {

using dist::Channel;

TextPass::TextPass(const PassOptions& options, PassWork work)
    : options_(options), work_(std::move(work)) {
  if (work_.name.empty()) work_.name = work_.stage;
  if (!IsFirst()) options_.kept = nullptr;
  for (const double size : work_.sizes) total_ += size;
  if (options_.kept != nullptr) TakeKept();
  if (!IsAlone()) ShareWhatIsKnown();
  for (size_t part = 0; part < work_.sizes.size(); ++part) {
    if (IsKnown(part)) done_ += work_.sizes[part];
  }
}

TextPass::~TextPass() {
  try {
    End();
  } catch (const std::exception&) {  // what was kept before stays
  }
}

void TextPass::End() {
  KeptWork* kept = std::exchange(options_.kept, nullptr);
  if (kept != nullptr) kept->End();
}

void TextPass::TakeKept() {
  PassState state =
      options_.kept->Begin(work_.name, [this] { return State(); });
  next_ = state.next;
  if (!state.sum.empty()) work_.unpack(state.sum);
  waiting_ = std::move(state.waiting);
  open_part_ = state.open_part;
  open_ = std::move(state.open);
}

void TextPass::ShareWhatIsKnown() {
  dist::Packer to;
  to.Put(next_);
  to.Put(waiting_.size());
  for (const auto& [part, message] : waiting_) to.Put(part);
  std::string bytes = to.Take();
  options_.group->Broadcast(bytes);
  if (IsFirst()) return;
  dist::Unpacker from(bytes);
  next_ = from.Get<size_t>();
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    known_.insert(from.Get<size_t>());
  }
}

PassState TextPass::State() {
  if (work_.settle) work_.settle();
  PassState state;
  if (is_running_ && work_.open) {
    state.open_part = running_;
    state.open = work_.open();
  } else {
    state.open_part = open_part_;
    state.open = open_;
  }
  state.next = next_;
  state.waiting = waiting_;
  if (!state.empty()) state.sum = work_.pack();
  return state;
}

bool TextPass::Owns(size_t part) const {
  if (IsKnown(part)) return false;
  return IsAlone() || part % static_cast<size_t>(options_.group->size()) ==
                          static_cast<size_t>(options_.group->rank());
}

std::string TextPass::Begin(size_t part) {
  running_ = part;
  is_running_ = true;
  return open_part_ == part ? std::exchange(open_, {}) : std::string();
}

void TextPass::Run(
    const std::function<std::string(size_t, std::string_view)>& part) {
  for (size_t i = 0; i < work_.sizes.size(); ++i) {
    if (!Owns(i)) continue;
    Tell(0);
    const std::string begun = Begin(i);
    Give(i, part(i, begun));
    Tell(0);
  }
  Finish(work_.sizes.size());
}

void TextPass::Tell(double share) {
  const double more = is_running_ ? share * SizeOf(running_) : 0;
  Tell(done_ + more, total_);
}

void TextPass::Tell(double done, double total) {
  ThrowIfStopped(options_.stop, work_.stage);
  if (work_.sizes.empty()) done_ = done, total_ = total;
  if (options_.progress) options_.progress(work_.stage, done, total);
  Collect(0);
  if (options_.kept != nullptr) options_.kept->Tick();
}

void TextPass::Give(size_t part, std::string message) {
  if (running_ == part) is_running_ = false;
  done_ += SizeOf(part);
  if (!IsFirst()) {
    dist::Packer to;
    to.Put(part);
    to.Put(message);
    options_.group->Post(0, Channel::kWork, to.Take());
    return;
  }
  waiting_[part] = std::move(message);
  Collect(0);
}

void TextPass::Collect(double seconds) {
  while (!IsAlone()) {
    auto message = options_.group->Poll(Channel::kWork, seconds);
    if (!message) break;
    dist::Unpacker from(message->bytes);
    const auto part = from.Get<size_t>();
    waiting_[part] = from.GetString();
    done_ += SizeOf(part);
    seconds = 0;
  }
  AddWaiting();
}

void TextPass::AddWaiting() {
  for (auto first = waiting_.begin();
       first != waiting_.end() && first->first == next_;
       first = waiting_.begin()) {
    work_.add(first->second);
    waiting_.erase(first);
    ++next_;
  }
}

void TextPass::Finish(size_t parts) {
  constexpr double kSeconds = 0.1;
  if (IsAlone()) return End();
  while (IsFirst() && next_ < parts) {
    Collect(kSeconds);
    Tell(0);
  }
  std::string sum;
  if (IsFirst() && work_.sum_on == SumOn::kAll) sum = work_.pack();
  options_.group->Broadcast(sum);
  if (!IsFirst() && work_.sum_on == SumOn::kAll) work_.unpack(sum);
  End();
}

std::vector<size_t> CutByRoom(size_t items, int64_t most,
                              const std::function<int64_t(size_t)>& size) {
  std::vector<size_t> ends;
  int64_t total = 0;
  for (size_t i = 0; i < items; ++i) {
    total += size(i);
    if (total < most && i + 1 < items) continue;
    ends.push_back(i + 1);
    total = 0;
  }
  return ends;
}

}  // namespace headwise
