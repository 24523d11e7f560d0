#include "ranges.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

namespace tfsmith::bert {
namespace {

std::string Named(const std::string& path) { return "QuantizationFactorsPath '" + path + "'"; }

std::runtime_error Failure(const std::string& path, const std::string& what) {
  return std::runtime_error(Named(path) + " " + what);
}

}  // namespace

void Merge(const Ranges& seen, Ranges& ranges) {
  for (size_t layer = 0; layer < ranges.size(); ++layer) {
    for (size_t point = 0; point < kPoints; ++point) {
      ranges[layer][point].low = std::min(ranges[layer][point].low, seen[layer][point].low);
      ranges[layer][point].high = std::max(ranges[layer][point].high, seen[layer][point].high);
    }
  }
}

Ranges MakeRanges(const std::vector<float>& numbers, size_t layers, const std::string& where) {
  bool fine = numbers.size() == layers * kPoints * 2;
  Ranges ranges(layers);
  for (size_t index = 0; fine && index < numbers.size(); index += 2) {
    const float low = numbers[index];
    const float high = numbers[index + 1];
    fine = std::isfinite(low) && std::isfinite(high) && low <= high;
    // Zero must have a byte of its own.
    ranges[index / (kPoints * 2)][index / 2 % kPoints] = {std::min(low, 0.0f), std::max(high, 0.0f)};
  }
  if (!fine) {
    const std::string what = " does not have 4 ranges for each of " + std::to_string(layers) + " layers: calibrate anew";
    throw std::runtime_error(where + what);
  }
  return ranges;
}

Ranges ReadRanges(const std::string& path, size_t layers) {
  std::ifstream file(path);
  if (!file) throw Failure(path, "cannot be opened: run the model with CalibrateQuantFactors first");
  std::vector<float> numbers;
  float number;
  while (numbers.size() <= layers * kPoints * 2 && file >> number) numbers.push_back(number);
  if (!file.eof()) numbers.clear();  // it ends in something that is no number, or has too many
  return MakeRanges(numbers, layers, Named(path));
}

void WriteRanges(const std::string& path, const Ranges& ranges) {
  if (path.empty()) throw Failure(path, "is empty: name the file that calibration shall write");
  std::ostringstream text;
  text.precision(std::numeric_limits<float>::max_digits10);
  for (const LayerRanges& layer : ranges) {
    const char* gap = "";
    for (const Range& range : layer) {
      text << gap << range.low << ' ' << range.high;
      gap = " ";
    }
    text << '\n';
  }
  // A reader must never see half a file, so a new one takes the old one's place.
  const std::string sibling = path + "." + std::to_string(getpid()) + ".tmp";
  std::ofstream file(sibling);
  file << text.str();
  file.close();
  if (!file || std::rename(sibling.c_str(), path.c_str()) != 0) {
    std::remove(sibling.c_str());
    throw Failure(path, "cannot be written");
  }
}

}  // namespace tfsmith::bert
