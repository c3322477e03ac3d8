// Signals, standard descriptors, one environment variable. Door: process.h.
#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>

namespace headwise {
namespace {

// A closed descriptor would be given to the next file that is opened, and
// messages would go into it. Open the wrong way round, standard input and
// output still fail; messages that nobody wants vanish.
void OpenStandardDescriptors() {
  constexpr int kHow[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int number = 0; number < 3; ++number) {
    if (fcntl(number, F_GETFD) >= 0) continue;
    // The lowest number that is free, which is this one.
    (void)!open("/dev/null", kHow[number]);
  }
}

// Within a handler only system calls are allowed: no memory, no streams.
void WriteAll(std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) {
    (void)!write(STDERR_FILENO, text.data(), text.size());
  }
}

// "7f01-7f02 r--p 0 fe:00 71 /path": the path where the line's addresses hold
// the given one and it is a file's, else nothing.
std::string_view MappedPath(std::string_view line, uintptr_t address) {
  uintptr_t bounds[2] = {};
  size_t at = 0;
  for (uintptr_t& bound : bounds) {
    for (; at < line.size() && line[at] != '-' && line[at] != ' '; ++at) {
      const char c = line[at];
      bound = 16 * bound + (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    ++at;
  }
  const size_t path = line.find('/');
  const bool inside = bounds[0] <= address && address < bounds[1];
  return inside && path != line.npos ? line.substr(path) : std::string_view();
}

// Looks the address up in /proc/self/maps. The result is in `line`.
std::string_view FileAt(uintptr_t address, std::array<char, 8192>& line) {
  const int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  std::array<char, 4096> part;
  size_t size = 0;
  for (ssize_t got = 0;
       (got = read(descriptor, part.data(), part.size())) > 0;) {
    for (ssize_t i = 0; i < got; ++i) {
      if (part[i] != '\n') {
        if (size < line.size()) line[size++] = part[i];
        continue;
      }
      const std::string_view path = MappedPath({line.data(), size}, address);
      if (!path.empty()) {
        close(descriptor);
        return path;
      }
      size = 0;
    }
  }
  close(descriptor);
  return {};
}

// Models and texts are read through memory maps: of a file that another
// program shortens meanwhile, the system has this signal to say so.
void ReportShortenedFile(int signal, siginfo_t* info, void*) {
  // Other threads read the same file: one of them speaks.
  static std::atomic_flag reporting;
  while (reporting.test_and_set()) pause();
  std::array<char, 8192> line;
  const std::string_view path =
      FileAt(reinterpret_cast<uintptr_t>(info->si_addr), line);
  if (path.empty()) {  // not ours to explain: the default action takes over
    ::signal(signal, SIG_DFL);
    reporting.clear();
    return;
  }
  WriteAll({"error: [", path,
            "] expected a file that stays while it is read; found it cut short "
            "or unreadable; run it again once the file is whole\n"});
  _exit(1);
}

}  // namespace

void PrepareProcess() {
  OpenStandardDescriptors();
  // `headwise … | head` and Ctrl-C end the program at once, as everywhere;
  // files are renamed into place, so neither leaves a broken one.
  ::signal(SIGPIPE, SIG_DFL);
  // A file beyond the limit of its size is an error to report, not an end.
  ::signal(SIGXFSZ, SIG_IGN);
  struct sigaction shortened = {};
  shortened.sa_sigaction = ReportShortenedFile;
  shortened.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &shortened, nullptr);
  // Threads are ours; those that OpenBLAS would start are never used, and where
  // memory is too small for them it waits for them at the end without end.
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
}

}  // namespace headwise
