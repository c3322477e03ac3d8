// Door: timeline.h.
#include "headwise/train/timeline.h"

#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"

namespace headwise {
namespace {

constexpr double kMicroseconds = 1e6;

Json NameOf(const char* what, int rank, int row, const std::string& name) {
  return {{"name", what},
          {"ph", "M"},
          {"pid", rank},
          {"tid", row},
          {"args", {{"name", name}}}};
}

}  // namespace

Timeline::Timeline(dist::Group& group) {
  group.Barrier();
  origin_ = Clock::now();
}

void Timeline::BeginStep() {
  const std::lock_guard lock(mutex_);
  ++steps_;
}

void Timeline::Add(Row row, std::string name, Clock::time_point begin,
                   Clock::time_point end) {
  using Seconds = std::chrono::duration<double>;
  const std::lock_guard lock(mutex_);
  if (steps_ > kMostSteps) return;
  spans_.push_back({row, std::move(name), Seconds(begin - origin_).count(),
                    Seconds(end - begin).count()});
}

void Timeline::Write(dist::Group& group,
                     const std::filesystem::path& file) const {
  const int rank = group.rank();
  Json events = Json::array();
  events.push_back(
      NameOf("process_name", rank, 0, "rank " + std::to_string(rank)));
  for (const auto& [row, name] : {std::pair(Row::kCompute, "computing"),
                                  std::pair(Row::kReduce, "reducing")}) {
    events.push_back(NameOf("thread_name", rank, static_cast<int>(row), name));
  }
  for (const Span& span : spans_) {
    events.push_back({{"name", span.name},
                      {"ph", "X"},
                      {"pid", rank},
                      {"tid", static_cast<int>(span.row)},
                      {"ts", kMicroseconds * span.begin},
                      {"dur", kMicroseconds * span.seconds}});
  }
  const std::vector<std::string> all = group.Gather(events.dump());
  if (!group.is_first()) return;
  Json joined = Json::array();
  for (const std::string& one : all) {
    for (const auto& event : ParseJson(one, "timeline")) {
      joined.push_back(event);
    }
  }
  const Json trace = {{"traceEvents", joined}, {"displayTimeUnit", "ms"}};
  WriteFileAtomically(file, trace.dump() + "\n");
}

}  // namespace headwise
