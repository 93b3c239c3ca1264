"""Files and scripts to run. A package, because another one of this name may be installed (Opacus brings one)."""
