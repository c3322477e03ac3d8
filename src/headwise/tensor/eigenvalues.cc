// LAPACK's dgeev. Door: eigenvalues.h.
#include "headwise/tensor/eigenvalues.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "headwise/error.h"

namespace headwise {
namespace {

// OpenBLAS, loaded when it is first needed: it starts threads and
// relocates a large library while it loads, which every start of a program
// would pay for.
struct Lapack {
  void (*dgeev)(const char* left, const char* right, const int* n, double* a,
                const int* lda, double* real, double* imaginary, double* vl,
                const int* ldvl, double* vr, const int* ldvr, double* work,
                const int* lwork, int* info) = nullptr;
  void (*set_threads)(int threads) = nullptr;

  Lapack() {
    // Never closed: its threads live as long as the program.
    void* handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      const auto find = [handle](auto& function, const char* symbol) {
        function =
            reinterpret_cast<std::remove_reference_t<decltype(function)>>(
                dlsym(handle, symbol));
      };
      find(dgeev, "dgeev_");
      find(set_threads, "openblas_set_num_threads");
    }
    if (dgeev == nullptr || set_threads == nullptr) {
      // Not there, without a LAPACK, or too large for what memory is left.
      const char* reason = dlerror();
      throw Error(ErrorCode::kUnsupported,
                  {"eigenvalues", "OpenBLAS with its LAPACK",
                   reason != nullptr ? reason : "none",
                   "apt install libopenblas0-pthread"});
    }
  }
};

}  // namespace

std::vector<std::complex<double>> Eigenvalues(const Matrix& a) {
  const bool finite = std::all_of(a.values.begin(), a.values.end(),
                                  [](double x) { return std::isfinite(x); });
  if (a.rows != a.columns || !finite) {
    throw Error(ErrorCode::kInvalidArgument,
                {"eigenvalues", "a square matrix of finite numbers",
                 std::to_string(a.rows) + " × " + std::to_string(a.columns) +
                     (finite ? "" : ", not finite"),
                 ""});
  }
  // A transposed matrix has the same eigenvalues, so row-major will do.
  std::vector<double> values = a.values;
  const int n = static_cast<int>(a.rows), one = 1;
  if (n == 0) return {};
  std::vector<double> real(n), imaginary(n);
  // The blocked reduction likes a few dozen columns of work space.
  const int size = 64 * n;
  std::vector<double> work(size);
  int info = 0;
  static const Lapack lapack;
  lapack.set_threads(1);  // threads are ours, and results the same
  lapack.dgeev("N", "N", &n, values.data(), &n, real.data(), imaginary.data(),
               nullptr, &one, nullptr, &one, work.data(), &size, &info);
  if (info != 0) {
    throw Error(ErrorCode::kInternal,
                {"eigenvalues", "an iteration that converges",
                 "info " + std::to_string(info), ""});
  }
  std::vector<std::complex<double>> result;
  for (int i = 0; i < n; ++i) result.emplace_back(real[i], imaginary[i]);
  return result;
}

}  // namespace headwise
