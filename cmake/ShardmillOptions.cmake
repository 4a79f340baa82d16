# SPDX-License-Identifier: Apache-2.0
# Decides which optional parts are built. AUTO means "if found"; afterwards the variables (not the
# cache entries) are ON or OFF.
include(ShardmillTorch)
foreach(part TORCH CUDA)
  set(SHARDMILL_WITH_${part} AUTO CACHE STRING "Build the ${part} parts: AUTO (found), ON or OFF")
  set_property(CACHE SHARDMILL_WITH_${part} PROPERTY STRINGS AUTO ON OFF)
endforeach()

# shardmill_decide(PART FOUND VERSION PATH REMEDY)
macro(shardmill_decide part version path remedy)
  set(SHARDMILL_${part}_SUMMARY "off (not wanted)")
  if(NOT "${version}" STREQUAL "")
    set(SHARDMILL_${part}_SUMMARY "${version} (${path})")
    set(SHARDMILL_WITH_${part} ON)
  elseif(SHARDMILL_WITH_${part} STREQUAL "AUTO")
    set(SHARDMILL_${part}_SUMMARY "off (not found: ${remedy})")
    set(SHARDMILL_WITH_${part} OFF)
  elseif(SHARDMILL_WITH_${part})
    message(FATAL_ERROR "SHARDMILL_WITH_${part} is ON, but nothing was found: ${remedy}")
  endif()
endmacro()

set(SHARDMILL_TORCH_DIR "")
if(SHARDMILL_WITH_TORCH)
  shardmill_find_torch("")
endif()
if(SHARDMILL_TORCH_DIR)
  set(found ${SHARDMILL_TORCH_VERSION})
else()
  set(found "")
endif()
shardmill_decide(TORCH "${found}" "${SHARDMILL_TORCH_DIR}"
  "apt-get install libtorch-dev, or pip install torch, or -DTorch_DIR=FOLDER_OF_TorchConfig.cmake")
if(SHARDMILL_WITH_CUDA)
  shardmill_find_cuda("${SHARDMILL_TORCH_DIR}")
endif()
shardmill_decide(CUDA "${SHARDMILL_CUDA_VERSION}" "${SHARDMILL_CUDA_PATH}"
  "install the CUDA toolkit, or name it with -DCUDAToolkit_ROOT=FOLDER")
