"""AutoDO: what is learned about the training images themselves, against guide images whose labels are right."""
