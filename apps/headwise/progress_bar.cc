// Drawing progress. Door: progress_bar.h.
#include "progress_bar.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "console.h"
#include "headwise/drawing/text.h"

namespace headwise {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kLineSeconds = 10;

// 12.3k, 4.5M
std::string Short(double value) {
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

// 12.3k/s, 0.4/s, 25 s each
std::string Rate(double speed) {
  if (speed >= 10) return Short(speed) + "/s";
  if (speed >= 0.1 || speed <= 0) return fmt::format("{:.1f}/s", speed);
  return Duration(1 / speed) + " each";
}

std::string Bar(double share, int cells) {
  const int full =
      std::clamp(static_cast<int>(std::lround(share * cells)), 0, cells);
  std::string bar;
  for (int i = 0; i < cells; ++i) bar += i < full ? "━" : "─";
  return bar;
}

// The unit that a stage counts; `unit` where its name does not say.
const char* UnitOf(std::string_view stage, const char* unit) {
  constexpr std::pair<std::string_view, const char*> kUnits[] = {
      {"attend", "layers"},           {"cache", "sequences"},
      {"compose", "layers"},          {"confirm", "heads"},
      {"coreference", "documents"},   {"draw", "heads"},
      {"finetune", "steps"},          {"gates", "steps"},
      {"generate", "lines"},          {"heads closed", "batches"},
      {"join pairs", "entries"},      {"judge", "sequences"},
      {"read text", "bytes"},         {"whole model", "sequences"},
      {"least squares", "sequences"}, {"patch", "prompts"},
      {"path effects", "windows"},    {"probe the model", ""},
      {"profile", "tokens"},          {"similar", "windows"},
      {"tokenize", "files"},          {"translation", "pairs"},
      {"translate", "sentences"},     {"treebank", "sentences"}};
  for (const auto& [name, counted] : kUnits) {
    if (stage == name) return counted;
  }
  return unit;
}

}  // namespace

ProgressBar::ProgressBar() : terminal_(::isatty(STDERR_FILENO) != 0) {
  winsize size{};
  if (terminal_ && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    width_ = size.ws_col;
  }
}

ProgressBar::~ProgressBar() {
  if (drawn_) WriteStatus("");
}

OnProgress ProgressBar::on_progress(const char* unit) {
  return [this, unit](std::string_view stage, double done, double total) {
    Show(stage, done, total, UnitOf(stage, unit));
  };
}

void ProgressBar::Show(std::string_view stage, double done, double total,
                       std::string_view unit) {
  const Clock::time_point now = Clock::now();
  if (stage != stage_) {
    stage_ = stage;
    begun_ = shown_ = now;
    begun_at_ = done;
    if (!terminal_) return;
  } else if (std::chrono::duration<double>(now - shown_).count() <
             (terminal_ ? kRedrawSeconds : kLineSeconds)) {
    return;
  }
  shown_ = now;
  const double spent = std::chrono::duration<double>(now - begun_).count();
  const double speed = (done - begun_at_) / std::max(spent, 1e-9);
  std::string numbers = Short(done);
  std::string left;
  if (total > 0) {
    numbers += fmt::format("/{}", Short(total));
    if (speed > 0) {
      const double seconds = (total - done) / speed;
      left = fmt::format(", {} left", Duration(seconds));
    }
  }
  if (!unit.empty()) numbers += fmt::format(" {}", unit);
  numbers += fmt::format(", {}{}", Rate(speed), left);
  if (!terminal_) {
    WriteStderr("{}: {}\n", stage_, numbers);
    return;
  }
  const std::string text = stage_ + " " + numbers;
  const int cells = std::min(30, width_ - DisplayWidth(text) - 2);
  const std::string bar =
      total > 0 && cells >= 5 ? Bar(done / total, cells) + " " : "";
  WriteStatus(Shorten(bar + text, width_ - 1));
  drawn_ = true;
}

}  // namespace headwise
