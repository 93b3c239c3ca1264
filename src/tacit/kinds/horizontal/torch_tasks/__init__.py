"""Tasks of a federation whose model is a torch module.

task            TorchTask: functions that return a module, a loss and data, as a task of a federation
weights         which tensors of a module travel, stay at a client or are frozen; tensors to arrays and back
records         the records of a client, by index: tensors, dicts of tensors or a map-style dataset
optimizers      optimizers by name
local_training  the training of one client in one round
private_training    the same by private SGD, if the file has train.privacy
"""
