# cmake -P, from meson.build: builds the static library of SOURCE in BUILD, and copies it and its link object to OUTPUT.
# DEPFILE gets the names of the files that both are made of, for ninja.
set(machine "")
if(CROSS)
  set(machine -DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=${PROCESSOR}")
endif()
# A compiler may have several words. CMake's own build looks for ccache itself.
foreach(compiler IN ITEMS C_COMPILER CXX_COMPILER)
  list(GET ${compiler} 0 first)
  if(first MATCHES "(^|/)s?ccache$")
    list(REMOVE_AT ${compiler} 0)
  endif()
endforeach()
execute_process(
  COMMAND "${CMAKE_COMMAND}" -G Ninja -S "${SOURCE}" -B "${BUILD}" -DHK_TESTS=OFF ${machine}
          "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" COMMAND_ERROR_IS_FATAL ANY
)
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run("${CMAKE_COMMAND}" --build "${BUILD}" --target hakmem_static)
run("${CMAKE_COMMAND}" -E copy "${BUILD}/libhakmem-archive.a" "${BUILD}/hakmem-link.o" "${OUTPUT}")
file(GLOB_RECURSE files "${SOURCE}/src/*" "${SOURCE}/include/*" "${SOURCE}/cmake/*")
list(APPEND files "${SOURCE}/CMakeLists.txt")
list(TRANSFORM files REPLACE "([ #])" "\\\\\\1")
list(JOIN files " \\\n  " files)
file(WRITE "${DEPFILE}" "${OUTPUT}/libhakmem-archive.a: \\\n  ${files}\n")
