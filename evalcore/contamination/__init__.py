"""Which test documents does the training text contain?"""
